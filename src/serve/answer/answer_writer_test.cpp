// What the writers make of each part of an answer, in each API.
#include "serve/answer/answer_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "serve/answer/prompt_logprobs.h"
#include "serve/ollama/ollama.h"
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
    EXPECT_EQ(delta.at("tool_calls").as_array().size(), 1u);
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

// What a client has in the end, put together from a stream as it does, or read from a whole answer.
struct Told {
  std::string text, thought;
  std::vector<std::pair<std::string, std::string>> calls;  // names and arguments
  Json usage;
  bool operator==(const Told&) const = default;
};

std::string text_at(const JsonObject& object, const char* key) {
  const Json* value = find(object, key);
  return value && value->is_string() ? value->as_string().c_str() : "";
}

Told told_by_chat(const std::string& bytes, bool streamed) {
  Told told;
  for (const JsonObject& event :
       streamed ? events_of(bytes) : std::vector<JsonObject>{parse_json(bytes, "answer").as_object()}) {
    if (const Json* usage = find(event, "usage"); usage && !usage->is_null()) told.usage = *usage;
    if (event.at("choices").as_array().empty()) continue;
    const JsonObject& said = event.at("choices").as_array()[0].at(streamed ? "delta" : "message").as_object();
    told.text += text_at(said, "content");
    told.thought += text_at(said, "reasoning_content");
    const Json* calls = find(said, "tool_calls");
    for (const Json& call : calls ? calls->as_array() : JsonArray{}) {
      const JsonObject& function = call.at("function").as_object();
      if (function.contains("name")) told.calls.emplace_back(text_at(function, "name"), "");
      told.calls.back().second += text_at(function, "arguments");
    }
  }
  return told;
}

Told told_by_messages(const std::string& bytes, bool streamed) {
  Told told;
  std::string arguments;
  const auto add = [&](const JsonObject& block) {
    told.text += text_at(block, "text");
    told.thought += text_at(block, "thinking");
    arguments += text_at(block, "partial_json");
    if (block.at("type") != "tool_use") return;
    told.calls.emplace_back(text_at(block, "name"), streamed ? "" : to_json(block.at("input")));
  };
  if (!streamed) {
    const Json whole = parse_json(bytes, "answer");
    for (const Json& block : whole.at("content").as_array()) add(block.as_object());
    told.usage = whole.at("usage");
    return told;
  }
  for (const JsonObject& event : events_of(bytes)) {
    if (const Json* block = find(event, "content_block")) add(block->as_object());
    if (event.at("type") == "content_block_delta") add(event.at("delta").as_object());
    if (event.at("type") == "content_block_stop" && !arguments.empty()) {
      told.calls.back().second = to_json(parse_json(std::exchange(arguments, {}), "arguments"));
    }
    if (event.at("type") == "message_delta") told.usage = event.at("usage");
  }
  for (auto& [name, given] : told.calls) given = given.empty() ? "{}" : given;
  return told;
}

Told told_by_ollama(const std::string& bytes, bool) {
  Told told;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const JsonObject line = parse_json(bytes.substr(at, end - at), "line").as_object();
    at = end + 1;
    const JsonObject& said = line.at("message").as_object();
    told.text += text_at(said, "content");
    told.thought += text_at(said, "thinking");
    const Json* calls = find(said, "tool_calls");
    for (const Json& call : calls ? calls->as_array() : JsonArray{}) {
      told.calls.emplace_back(text_at(call.at("function").as_object(), "name"),
                              to_json(call.at("function").at("arguments")));
    }
    if (line.at("done").as_bool()) told.usage = JsonArray{line.at("prompt_eval_count"), line.at("eval_count")};
  }
  return told;
}

// Every text of the parts in pieces of so many bytes at most, whole characters, and so many parts in each piece.
std::vector<ChoicePiece> cut(const std::vector<AnswerPart>& parts, size_t bytes, size_t together) {
  std::vector<AnswerPart> small;
  for (const AnswerPart& part : parts) {
    const bool whole = part.kind == Kind::kCallBegin || part.text.empty();
    for (size_t at = 0; at < std::max<size_t>(part.text.size(), 1);) {
      size_t end = whole ? part.text.size() : std::min(at + bytes, part.text.size());
      while (end < part.text.size() && (part.text[end] & 0xC0) == 0x80) ++end;
      small.push_back(part);
      small.back().text = part.text.substr(at, end - at);
      at = std::max(end, at + 1);
    }
  }
  std::vector<ChoicePiece> pieces;
  for (size_t i = 0; i < small.size(); ++i) {
    if (i % together == 0) pieces.emplace_back();
    pieces.back().parts.push_back(small[i]);
  }
  return pieces;
}

TEST(Writers, AStreamIsWhatAWholeAnswerIsAtEveryCut) {
  const auto part = [](Kind kind, std::string text, int index = -1, std::string id = {}) {
    return AnswerPart{.kind = kind, .text = std::move(text), .index = index, .id = std::move(id)};
  };
  const std::vector<AnswerPart> parts = {part(Kind::kReasoning, "I weigh \"this\" – and that."),
                                         part(Kind::kText, "Let me lööök. 😀"),
                                         part(Kind::kCallBegin, "find", 0, "call_a"),
                                         part(Kind::kCallArguments, R"({"city":"Zürich","days":[1,2]})", 0),
                                         part(Kind::kCallEnd, "", 0),
                                         part(Kind::kText, "And"),
                                         part(Kind::kCallBegin, "now", 1, "call_b"),
                                         part(Kind::kCallEnd, "", 1)};
  using Make = std::function<std::unique_ptr<AnswerWriter>()>;
  AnswerNames counted = names();
  counted.include_usage = true;
  const std::pair<Make, Told (*)(const std::string&, bool)> apis[] = {
      {[&] { return chat_writer(tokenizer(), counted); }, told_by_chat},
      {[&] { return messages_writer(names()); }, told_by_messages},
      {[&] { return ollama_chat_writer(tokenizer(), names()); }, told_by_ollama}};
  const Usage usage{.prompt = 30, .completion = 9, .cached = 2, .reasoning = 4};
  for (const auto& [make, told] : apis) {
    for (size_t bytes = 1; bytes < 30; ++bytes) {
      for (size_t together = 1; together < 5; ++together) {
        ChoiceAnswer answer;
        const std::unique_ptr<AnswerWriter> writer = make();
        std::string sent = writer->begin({.prompt = 30});
        for (const ChoicePiece& piece : cut(parts, bytes, together)) {
          answer.add(piece);
          sent += writer->piece(0, piece);
        }
        answer.end = ChoiceEnd::kToolCalls;
        sent += writer->end_choice(0, answer.end, "");
        sent += writer->end(usage);
        const Told streamed = told(sent, true), whole = told(make()->whole({answer}, usage), false);
        EXPECT_EQ(streamed.text, "Let me lööök. 😀And");
        EXPECT_EQ(streamed.thought, parts[0].text);
        ASSERT_EQ(streamed.calls.size(), 2u);
        EXPECT_EQ(streamed.calls[0].second, parts[3].text);
        EXPECT_EQ(streamed, whole) << bytes << " bytes, " << together << " parts together\n" << sent;
      }
    }
  }
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
