// What the writers make of each part of an answer, in each API.
#include "serve/answer/answer_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "serve/answer/prompt_logprobs.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> kTokenizer = toy_tokenizer();
  return *kTokenizer;
}

AnswerNames names() {
  return {.model = "toy", .fingerprint = "fp_1", .created = 5, .scored = false, .include_usage = false};
}

// Thinks, speaks, and calls two tools.
std::vector<ChoicePiece> pieces() {
  const auto part = [](Kind kind, std::string text, int index = -1, std::string id = {}) {
    return AnswerPart{.kind = kind, .text = std::move(text), .index = index, .id = std::move(id)};
  };
  return {
      {.parts = {part(Kind::kReasoning, "hm")}, .scores = {}},
      {.parts = {part(Kind::kReasoning, "m"), part(Kind::kText, "I ")}, .scores = {}},
      {.parts = {part(Kind::kText, "look")}, .scores = {}},
      {.parts = {part(Kind::kCallBegin, "find", 0, "call_a"), part(Kind::kCallArguments, "{\"x\":", 0)}, .scores = {}},
      {.parts = {part(Kind::kCallArguments, "1}", 0), part(Kind::kCallEnd, "", 0)}, .scores = {}},
      {.parts = {part(Kind::kCallBegin, "stop", 1, "call_b"), part(Kind::kCallEnd, "", 1)}, .scores = {}}};
}

ChoiceAnswer whole_answer() {
  ChoiceAnswer answer;
  for (const ChoicePiece& piece : pieces()) answer.add(piece);
  answer.end = ChoiceEnd::kToolCalls;
  return answer;
}

std::vector<JsonObject> events_of(const std::string& bytes) {
  std::vector<JsonObject> events;
  for (size_t at = 0; (at = bytes.find("data: ", at)) != std::string::npos;) {
    const size_t end = bytes.find("\n\n", at);
    const std::string text = bytes.substr(at + 6, end - at - 6);
    if (text != "[DONE]") events.push_back(parse_json(text, "event").as_object());
    at = end;
  }
  return events;
}

std::string stream(AnswerWriter& writer) {
  std::string bytes = writer.begin({.prompt = 3});
  for (const ChoicePiece& piece : pieces()) bytes += writer.piece(0, piece);
  bytes += writer.end_choice(0, ChoiceEnd::kToolCalls, "");
  return bytes + writer.end({.prompt = 3, .completion = 9, .cached = 2});
}

TEST(ChatWriter, CallsAndReasoningAsDeltas) {
  const std::unique_ptr<AnswerWriter> writer = chat_writer(tokenizer(), names());
  std::string content, reasoning, reason;
  std::vector<std::string> calls(2), ids(2), called(2);
  for (const JsonObject& event : events_of(stream(*writer))) {
    EXPECT_FALSE(event.contains("usage"));
    const JsonObject& choice = event.at("choices").as_array().at(0).as_object();
    const JsonObject& delta = choice.at("delta").as_object();
    if (delta.contains("content")) content += delta.at("content").as_string().c_str();
    if (delta.contains("reasoning_content")) reasoning += delta.at("reasoning_content").as_string().c_str();
    if (choice.at("finish_reason").is_string()) reason = choice.at("finish_reason").as_string().c_str();
    if (!delta.contains("tool_calls")) continue;
    for (const Json& call : delta.at("tool_calls").as_array()) {
      const auto index = static_cast<size_t>(call.at("index").as_int64());
      calls.at(index) += call.at("function").at("arguments").as_string().c_str();
      if (!call.as_object().contains("id")) continue;
      EXPECT_TRUE(ids[index].empty());
      ids[index] = call.at("id").as_string().c_str();
      called[index] = call.at("function").at("name").as_string().c_str();
      EXPECT_EQ(call.at("type").as_string(), "function");
    }
  }
  EXPECT_EQ(content, "I look");
  EXPECT_EQ(reasoning, "hmm");
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_EQ(calls, (std::vector<std::string>{"{\"x\":1}", ""}));
  EXPECT_EQ(ids, (std::vector<std::string>{"call_a", "call_b"}));
  EXPECT_EQ(called, (std::vector<std::string>{"find", "stop"}));
}

TEST(ChatWriter, CallsAndReasoningAsAMessage) {
  const std::unique_ptr<AnswerWriter> writer = chat_writer(tokenizer(), names());
  const Json json = parse_json(writer->whole({whole_answer()}, {.prompt = 3, .completion = 9}), "answer");
  const JsonObject& message = json.at("choices").as_array()[0].at("message").as_object();
  EXPECT_EQ(message.at("content").as_string(), "I look");
  EXPECT_EQ(message.at("reasoning_content").as_string(), "hmm");
  EXPECT_EQ(message.at("tool_calls").as_array()[0].at("function").at("arguments").as_string(), "{\"x\":1}");
  ChoiceAnswer silent = whole_answer();
  silent.text.clear();
  const Json other = parse_json(writer->whole({silent}, {}), "answer");
  EXPECT_TRUE(other.at("choices").as_array()[0].at("message").at("content").is_null());
}

TEST(MessagesWriter, BlocksFollowOneAnother) {
  const std::unique_ptr<AnswerWriter> writer = messages_writer(names());
  int open = -1, next = 0;
  std::vector<std::string> blocks;
  std::string input;
  for (const JsonObject& event : events_of(stream(*writer))) {
    const std::string type = event.at("type").as_string().c_str();
    if (type == "content_block_start") {
      EXPECT_EQ(open, -1) << "a block began within another";
      open = next++;
      EXPECT_EQ(event.at("index").as_int64(), open);
      blocks.push_back(event.at("content_block").at("type").as_string().c_str());
    } else if (type == "content_block_delta") {
      EXPECT_EQ(event.at("index").as_int64(), open);
      const JsonObject& delta = event.at("delta").as_object();
      if (delta.contains("partial_json")) input += delta.at("partial_json").as_string().c_str();
    } else if (type == "content_block_stop") {
      EXPECT_EQ(event.at("index").as_int64(), open);
      open = -1;
    } else if (type == "message_delta") {
      EXPECT_EQ(open, -1);
      EXPECT_EQ(event.at("delta").at("stop_reason").as_string(), "tool_use");
      EXPECT_EQ(event.at("usage").at("output_tokens").as_int64(), 9);
      EXPECT_EQ(event.at("usage").at("cache_read_input_tokens").as_int64(), 2);
      EXPECT_EQ(event.at("usage").at("input_tokens").as_int64(), 1);
    }
  }
  EXPECT_EQ(blocks, (std::vector<std::string>{"thinking", "text", "tool_use", "tool_use"}));
  EXPECT_EQ(input, "{\"x\":1}");
}

TEST(MessagesWriter, ContentOfAMessage) {
  const std::unique_ptr<AnswerWriter> writer = messages_writer(names());
  ChoiceAnswer answer = whole_answer();
  answer.calls[1].arguments = "{\"cut\":";  // by the answer's end
  const Json json = parse_json(writer->whole({answer}, {}), "answer");
  const JsonArray& content = json.at("content").as_array();
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0].at("thinking").as_string(), "hmm");
  EXPECT_EQ(content[1].at("text").as_string(), "I look");
  EXPECT_EQ(content[2].at("input").at("x").as_int64(), 1);
  EXPECT_EQ(content[3].at("input").at("partial_json").as_string(), "{\"cut\":");
}

TEST(Logprobs, NeverLeaveTheNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(finite_logprob(-kInfinity), -9999);
  EXPECT_EQ(finite_logprob(std::nanf("")), -9999);
  EXPECT_EQ(finite_logprob(-1e30f), -9999);
  EXPECT_EQ(finite_logprob(-0.5f), -0.5);

  const std::vector<float> logits = {1, 3, -kInfinity, 3, std::nanf("")};
  const ScoredToken score = score_token(logits, 1, 2);
  const double expected = 3 - std::log(std::exp(1.0) + 2 * std::exp(3.0));
  EXPECT_NEAR(score.logprob, expected, 1e-6);
  ASSERT_EQ(score.top.size(), 2u);
  EXPECT_EQ(score.top[0].token, 1);  // the lower id of two equal ones
  EXPECT_EQ(score.top[1].token, 3);
  EXPECT_EQ(score_token(logits, 2, 0).logprob, -kInfinity);
  EXPECT_EQ(score_token(logits, 2, 9).top.size(), 5u);
  EXPECT_EQ(score_token(std::vector<float>{-kInfinity, -kInfinity}, 0, 2).logprob, -kInfinity);
}

}  // namespace
}  // namespace ingot
