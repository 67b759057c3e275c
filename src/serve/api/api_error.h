// Errors of the API: what a client gets when a request is refused, in OpenAI's shape or in Anthropic's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace ingot {

// Thrown while a request is read; the handler turns it into the answer.
struct ApiError {
  int status = 400;
  std::string message;     // one sentence; no path, address or stack of this machine
  std::string param = {};  // the field: "messages[0].content"; empty: none
  std::string code = {};   // for programs: "context_length_exceeded"; empty: null
  std::string type = "invalid_request_error";
  double retry_after = 0;  // seconds, as a header; 0: none
  bool no_retry = false;   // tells clients' libraries that to try again is no use
};

// A field is wrong: 400.
ApiError bad_field(std::string_view param, std::string message);
// 503 with Retry-After: the queue is full, or the server drains.
ApiError server_busy(std::string message);
// 401.
ApiError no_key();
// 429 of one key's limits.
ApiError key_limit(std::string why, double seconds);
// 403: the key is one of ours and has no right to this.
ApiError not_allowed(std::string why);
// 404 and 405.
ApiError no_route(std::string_view path);
// 500 that tells nothing of the inside.
ApiError internal_error();
// 500: a file of the model was cut short while it was in use.
ApiError model_damaged();

enum class ApiStyle { kOpenAi, kResponses, kAnthropic, kOllama };
// Anthropic's for /v1/messages, that of OpenAI's responses for theirs, Ollama's for /api, and OpenAI's for all else.
// The two of OpenAI's differ in streams alone.
ApiStyle style_of(std::string_view path);

HttpResponse error_response(const ApiError& error, ApiStyle style);
// The same as the last event of a stream that has begun. `sequence`: events that came before it.
std::string error_event(const ApiError& error, ApiStyle style, int64_t sequence = 0);

}  // namespace ingot
