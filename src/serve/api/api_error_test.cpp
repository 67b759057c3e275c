#include "serve/api/api_error.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "files/json.h"

namespace ingot {
namespace {

TEST(ApiError, EventsOfResponsesAreNumbered) {
  const std::string event = error_event(server_busy("later"), style_of("/v1/responses"), 7);
  EXPECT_TRUE(event.starts_with("event: error\ndata: {")) << event;
  EXPECT_NE(event.find("\"type\":\"error\""), std::string::npos);
  EXPECT_NE(event.find("\"sequence_number\":7"), std::string::npos);
  EXPECT_EQ(style_of("/v1/responsesx"), ApiStyle::kOpenAi);
  EXPECT_EQ(style_of("/v1/responses/resp_1"), ApiStyle::kResponses);
}

std::string header_of(const HttpResponse& response, std::string_view name) {
  const auto found = std::ranges::find_if(response.headers, [&](const auto& header) { return header.first == name; });
  return found == response.headers.end() ? "" : found->second;
}

TEST(ApiError, OpenAiShapeNamesTheField) {
  const HttpResponse response = error_response(bad_field("messages[0].role", "is not known"), ApiStyle::kOpenAi);
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  const Json body = parse_json(response.body, "body");
  const JsonObject& error = body.at("error").as_object();
  EXPECT_EQ(get_string(error, "message"), "is not known");
  EXPECT_EQ(get_string(error, "type"), "invalid_request_error");
  EXPECT_EQ(get_string(error, "param"), "messages[0].role");
  EXPECT_TRUE(error.at("code").is_null());
}

TEST(ApiError, AnthropicShapeCarriesTheFieldInItsSentence) {
  const HttpResponse response = error_response(bad_field("max_tokens", "is missing"), ApiStyle::kAnthropic);
  const Json body = parse_json(response.body, "body");
  EXPECT_EQ(get_string(body.as_object(), "type"), "error");
  EXPECT_EQ(get_string(body.at("error").as_object(), "type"), "invalid_request_error");
  EXPECT_EQ(get_string(body.at("error").as_object(), "message"), "max_tokens: is missing");
  const auto message = [](std::string_view param, std::string text) {
    const HttpResponse refused = error_response(bad_field(param, std::move(text)), ApiStyle::kAnthropic);
    return get_string(parse_json(refused.body, "body").at("error").as_object(), "message");
  };
  EXPECT_EQ(message("max_tokens", "max_tokens is required"), "max_tokens is required");
  EXPECT_EQ(message("n", "no"), "n: no");
  const Json busy = parse_json(error_response(server_busy("later"), ApiStyle::kAnthropic).body, "body");
  EXPECT_EQ(get_string(busy.at("error").as_object(), "type"), "overloaded_error");
}

TEST(ApiError, SaysWhenToComeBackInWholeSeconds) {
  EXPECT_EQ(header_of(error_response(server_busy("later"), ApiStyle::kOpenAi), "retry-after"), "1");
  EXPECT_EQ(header_of(error_response(key_limit("slower", 2.2), ApiStyle::kOpenAi), "retry-after"), "3");
  EXPECT_EQ(header_of(error_response(internal_error(), ApiStyle::kOpenAi), "retry-after"), "");
}

TEST(ApiError, EventsAreOneOfEachStyle) {
  const std::string openai = error_event(internal_error(), ApiStyle::kOpenAi);
  EXPECT_TRUE(openai.starts_with("data: {\"error\":"));
  EXPECT_TRUE(openai.ends_with("}\n\n"));
  EXPECT_TRUE(
      error_event(internal_error(), ApiStyle::kAnthropic).starts_with("event: error\ndata: {\"type\":\"error\""));
}

TEST(ApiError, ForeignBytesStayOutOfTheBody) {
  const HttpResponse response = error_response(no_route("/\xff\x1b[31m"), ApiStyle::kOpenAi);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body.find('\x1b'), std::string::npos);
  EXPECT_NO_THROW(parse_json(response.body, "body"));
}

TEST(ApiError, OnlyMessagesHasAnthropicStyle) {
  EXPECT_EQ(style_of("/v1/messages"), ApiStyle::kAnthropic);
  EXPECT_EQ(style_of("/v1/messages/count_tokens"), ApiStyle::kAnthropic);
  EXPECT_EQ(style_of("/v1/messagesx"), ApiStyle::kOpenAi);
  EXPECT_EQ(style_of("/v1/chat/completions"), ApiStyle::kOpenAi);
}

}  // namespace
}  // namespace ingot
