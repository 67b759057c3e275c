#include "serve/api/api_error.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"

namespace ingot {

namespace {

// Anthropic's clients choose their exception by the status and show this word.
const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

// "n" does not begin "no such field".
bool begins_with_field(std::string_view message, std::string_view param) {
  if (!message.starts_with(param)) return false;
  return message.size() == param.size() || message[param.size()] == ' ' || message[param.size()] == ':';
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string error_body(const ApiError& error, ApiStyle style) {
  // Anthropic and Ollama have no place for the field's name but the sentence.
  const bool named = error.param.empty() || begins_with_field(error.message, error.param);
  const std::string message = named ? error.message : fmt::format("{}: {}", error.param, error.message);
  if (style == ApiStyle::kOllama) return to_json(JsonObject{{"error", message}});
  if (style == ApiStyle::kAnthropic) {
    JsonObject inner{{"type", anthropic_type(error.status)}, {"message", message}};
    if (!error.code.empty()) inner["details"] = JsonObject{{"error_code", error.code}};
    return to_json(JsonObject{{"type", "error"}, {"error", std::move(inner)}});
  }
  return to_json(JsonObject{{"error",
                             {{"message", error.message},
                              {"type", error.type},
                              {"param", or_null(error.param)},
                              {"code", or_null(error.code)}}}});
}

}  // namespace

ApiError bad_field(std::string_view param, std::string message) {
  return {.status = 400, .message = std::move(message), .param = std::string(param)};
}

ApiError server_busy(std::string message) {
  return {
      .status = 503, .message = std::move(message), .code = "server_busy", .type = "server_error", .retry_after = 1};
}

ApiError no_key() {
  return {.status = 401,
          .message = "a valid API key is needed: Authorization: Bearer KEY, or X-Api-Key: KEY",
          .code = "invalid_api_key",
          .type = "authentication_error"};
}

ApiError key_limit(std::string why, double seconds) {
  return {.status = 429,
          .message = std::move(why),
          .code = "rate_limit_exceeded",
          .type = "rate_limit_error",
          .retry_after = seconds};
}

ApiError not_allowed(std::string why) {
  return {.status = 403, .message = std::move(why), .code = "not_allowed", .type = "permission_error"};
}

ApiError no_route(std::string_view path) {
  return {
      .status = 404, .message = fmt::format("there is no route {}", utf8_printable(path, 200)), .code = "not_found"};
}

ApiError internal_error() {
  return {.status = 500, .message = "the server failed to answer this request", .type = "server_error"};
}

ApiError model_damaged() {
  return {.status = 500,
          .message = "a file of the model was cut short while it was in use",
          .code = "model_damaged",
          .type = "server_error"};
}

ApiStyle style_of(std::string_view path) {
  const auto below = [path](std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  };
  if (below("/v1/messages")) return ApiStyle::kAnthropic;
  if (below("/api")) return ApiStyle::kOllama;
  return below("/v1/responses") ? ApiStyle::kResponses : ApiStyle::kOpenAi;
}

HttpResponse error_response(const ApiError& error, ApiStyle style) {
  HttpResponse response{.status = error.status, .body = error_body(error, style)};
  if (error.retry_after > 0) {
    response.headers.emplace_back("retry-after", fmt::format("{:.0f}", std::ceil(error.retry_after)));
  }
  if (error.no_retry) response.headers.emplace_back("x-should-retry", "false");
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

std::string error_event(const ApiError& error, ApiStyle style, int64_t sequence) {
  if (style == ApiStyle::kResponses) {
    return fmt::format("event: error\ndata: {}\n\n", to_json(JsonObject{{"type", "error"},
                                                                        {"code", or_null(error.code)},
                                                                        {"message", error.message},
                                                                        {"param", or_null(error.param)},
                                                                        {"sequence_number", sequence}}));
  }
  const std::string body = error_body(error, style);
  if (style == ApiStyle::kOllama) return body + "\n";
  return style == ApiStyle::kAnthropic ? fmt::format("event: error\ndata: {}\n\n", body)
                                       : fmt::format("data: {}\n\n", body);
}

}  // namespace ingot
