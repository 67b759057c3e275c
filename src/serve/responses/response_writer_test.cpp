#include "serve/responses/response_writer.h"

#include <gtest/gtest.h>

#include <set>

#include "files/json.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

AnswerPart part(Kind kind, std::string text, std::string id = {}) {
  return {.kind = kind, .text = std::move(text), .index = 0, .id = std::move(id)};
}

AnswerPart custom(AnswerPart call) {
  call.custom = true;
  return call;
}

// A thought, a text, a call of a function, another text, a call of a custom tool and a call that is cut short.
std::vector<AnswerPart> everything() {
  return {part(Kind::kReasoning, "I weigh this."),
          part(Kind::kText, "Let me \"look\"."),
          part(Kind::kCallBegin, "get_weather", "call_1"),
          part(Kind::kCallArguments, R"({"city": "Zürich"})"),
          part(Kind::kCallEnd, ""),
          part(Kind::kText, "And now"),
          custom(part(Kind::kCallBegin, "shell", "call_2")),
          custom(part(Kind::kCallArguments, "ls \"a\"\n")),
          custom(part(Kind::kCallEnd, "")),
          part(Kind::kCallBegin, "get_time", "call_3"),
          part(Kind::kCallArguments, R"({"zo)")};
}

// The same with every text cut into pieces of so many bytes at most.
std::vector<ChoicePiece> cut(const std::vector<AnswerPart>& parts, size_t bytes) {
  std::vector<ChoicePiece> pieces;
  for (const AnswerPart& whole : parts) {
    if (whole.kind == Kind::kCallBegin || whole.text.empty()) {
      pieces.push_back({.parts = {whole}, .scores = {}});
      continue;
    }
    for (size_t at = 0; at < whole.text.size();) {
      size_t end = std::min(at + bytes, whole.text.size());
      while (end < whole.text.size() && (whole.text[end] & 0xC0) == 0x80) ++end;
      AnswerPart piece = whole;
      piece.text = whole.text.substr(at, end - at);
      pieces.push_back({.parts = {std::move(piece)}, .scores = {}});
      at = end;
    }
  }
  return pieces;
}

class ResponseWriterTest : public testing::Test {
 protected:
  std::unique_ptr<AnswerWriter> writer(bool summary = false, KeepResponse keep = {}) {
    ResponseFrame frame;
    frame.id = "resp_1234";
    frame.repeated = "\"tools\":[]";
    frame.summary = summary;
    frame.store = static_cast<bool>(keep);
    AnswerNames names;
    names.model = "toy";
    return response_writer(*tokenizer_, names, frame, std::move(keep));
  }

  static std::vector<Json> events_of(const std::string& bytes) {
    std::vector<Json> events;
    for (size_t at = bytes.find("data: "); at != std::string::npos; at = bytes.find("data: ", at + 1)) {
      events.push_back(parse_json(bytes.substr(at + 6, bytes.find("\n\n", at) - at - 6), "event"));
    }
    return events;
  }

  static const Usage kUsage;
  const std::unique_ptr<Tokenizer> tokenizer_ = toy_tokenizer();
};
const Usage ResponseWriterTest::kUsage{.prompt = 10, .completion = 20, .cached = 3, .reasoning = 4};

TEST_F(ResponseWriterTest, AStreamIsWhatAWholeAnswerIsAtEveryCut) {
  for (const ChoiceEnd end : {ChoiceEnd::kToolCalls, ChoiceEnd::kLength}) {
    for (const bool summary : {false, true}) {
      for (size_t bytes = 1; bytes < 20; ++bytes) {
        const std::vector<ChoicePiece> pieces = cut(everything(), bytes);
        ChoiceAnswer answer;
        for (const ChoicePiece& piece : pieces) answer.add(piece);
        answer.end = end;
        const Json whole = parse_json(writer(summary)->whole({answer}, kUsage), "whole");
        const auto stream = writer(summary);
        std::string sent;
        for (const ChoicePiece& piece : pieces) sent += stream->piece(0, piece);
        sent += stream->end_choice(0, end, "");
        sent = stream->begin({}) + sent + stream->end(kUsage);
        const std::vector<Json> events = events_of(sent);
        ASSERT_GT(events.size(), 10u);
        std::string joined;
        for (size_t i = 0; i < events.size(); ++i) {
          EXPECT_EQ(events[i].at("sequence_number").to_number<size_t>(), i);
          if (const Json* delta = find(events[i].get_object(), "delta")) joined += delta->get_string().c_str();
        }
        EXPECT_EQ(joined, "I weigh this.Let me \"look\".{\"city\": \"Zürich\"}And nowls \"a\"\n{\"zo");
        const Json& last = events.back().at("response");
        EXPECT_EQ(last.at("output"), whole.at("output"));
        EXPECT_EQ(last.at("usage"), whole.at("usage"));
        EXPECT_EQ(last.at("status"), end == ChoiceEnd::kLength ? "incomplete" : "completed");
      }
    }
  }
}

TEST_F(ResponseWriterTest, ItemsAndTheirOrder) {
  ChoiceAnswer answer;
  for (const ChoicePiece& piece : cut(everything(), 3)) answer.add(piece);
  const Json whole = parse_json(writer()->whole({answer}, kUsage), "whole");
  const JsonArray& output = whole.at("output").get_array();
  std::string types;
  std::set<std::string> ids;
  for (const Json& item : output) {
    types += std::string(item.at("type").get_string()) + " " + std::string(item.at("status").get_string()) + "; ";
    ids.insert(std::string(item.at("id").get_string()));
  }
  EXPECT_EQ(types,
            "reasoning completed; message completed; function_call completed; message completed; custom_tool_call "
            "completed; function_call incomplete; ");
  EXPECT_EQ(ids.size(), output.size());
  EXPECT_EQ(output[4].at("input"), "ls \"a\"\n");
  EXPECT_EQ(whole.at("usage").at("output_tokens_details").at("reasoning_tokens"), 4);
  EXPECT_EQ(whole.at("usage").at("input_tokens_details").at("cached_tokens"), 3);
}

TEST_F(ResponseWriterTest, ScoresGoWithTheText) {
  ChoiceAnswer answer;
  const ScoredToken score{.token = byte_token('a'), .logprob = -0.5f};
  const std::vector<ChoicePiece> pieces = {{.parts = {part(Kind::kReasoning, "b")}, .scores = {score}},
                                           {.parts = {part(Kind::kText, "a")}, .scores = {score}},
                                           {.parts = {part(Kind::kText, "aa")}, .scores = {score, score}}};
  const auto stream = writer();
  std::string sent;
  for (const ChoicePiece& piece : pieces) {
    answer.add(piece);
    sent += stream->piece(0, piece);
  }
  sent += stream->end_choice(0, ChoiceEnd::kStop, "");
  sent += stream->end(kUsage);
  const Json whole = parse_json(writer()->whole({answer}, kUsage), "whole");
  EXPECT_EQ(events_of(sent).back().at("response").at("output"), whole.at("output"));
  EXPECT_EQ(whole.at("output").at(1).at("content").at(0).at("logprobs").get_array().size(), 3u);
}

TEST_F(ResponseWriterTest, WhatIsKeptSaysSo) {
  std::string kept;
  const auto keep = [&](const std::string& response, const std::string&) {
    kept = response;
    return true;
  };
  const std::string sent = writer(false, keep)->whole({ChoiceAnswer{}}, kUsage);
  EXPECT_EQ(sent, kept);
  EXPECT_EQ(parse_json(sent, "sent").at("store"), true);
  const auto full = [](const std::string&, const std::string&) { return false; };
  EXPECT_EQ(parse_json(writer(false, full)->whole({ChoiceAnswer{}}, kUsage), "sent").at("store"), false);
}

TEST_F(ResponseWriterTest, AFailureIsTheLastEvent) {
  const auto stream = writer();
  std::string sent = stream->piece(0, {.parts = {part(Kind::kText, "a")}, .scores = {}});
  sent = stream->begin({}) + sent + stream->failed(internal_error(), ApiStyle::kResponses);
  const Json last = events_of(sent).back();
  EXPECT_EQ(last.at("type"), "response.failed");
  EXPECT_EQ(last.at("sequence_number").to_number<size_t>(), events_of(sent).size() - 1);
  EXPECT_EQ(last.at("response").at("error").at("code"), "server_error");
}

}  // namespace
}  // namespace ingot
