// Whatever a model writes, little of it is held back: no event of a stream becomes large, and no memory grows with it.
#include "serve/answer/held_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/tool_calls.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;
using Value = ToolSignature::Value;

constexpr size_t kMuch = 2 * kMaxHeldBytes;

AnswerForm with_form(const char* name, bool reasoning = false) {
  return {.tools = find_call_form(name),
          .tool_names = {"f"},
          .signatures = {{"f", {{"list", Value::kJson}, {"text", Value::kText}}}},
          .reasoning = reasoning};
}

struct Seen {
  std::string text, arguments;
  size_t largest = 0;  // of the pieces that one push gave out
  size_t unseen = 0;   // bytes that were fed before the first that came out
  int calls = 0;
};

// `begin`, then `more` again and again up to kMuch bytes, some bytes at a time as tokens are.
Seen feed(const AnswerForm& form, const std::string& begin, const std::string& more) {
  AnswerParser parser(form, 1);
  Seen seen;
  std::string text = begin;
  while (text.size() < kMuch) text += more;
  size_t fed = 0;
  for (size_t at = 0; at < text.size(); at += 5) {
    fed = at + 5;
    size_t size = 0;
    for (const AnswerPart& part : parser.push(std::string_view(text).substr(at, 5))) {
      size += part.text.size();
      if (part.kind == Kind::kText || part.kind == Kind::kReasoning) seen.text += part.text;
      if (part.kind == Kind::kCallArguments) seen.arguments += part.text;
    }
    seen.largest = std::max(seen.largest, size);
    if (size == 0 && seen.text.empty() && seen.arguments.empty()) seen.unseen = fed;
  }
  seen.calls = parser.n_calls();
  return seen;
}

// What only looks like a call, for ever: white space where a mark may follow, an object without a name.
TEST(HeldText, WhatIsNoCallComesOutAsText) {
  struct Case {
    const char *form, *begin, *more;
  };
  for (const Case& c :
       {Case{"hermes", "", " "}, Case{"hermes", "<tool_call>", "\n"}, Case{"hermes", "<tool_call>{\"a\": \"", "x"},
        Case{"hermes", "<tool_call>{\"arguments\": {\"a\": \"", "x"},
        Case{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"", "x"}, Case{"llama3", "{\"a\": [", "1,"},
        Case{"llama3", "{\"name\": \"f\", \"z\": [", "1,"}, Case{"qwen-coder", "<tool_call>\n<function=f>", "\n"},
        Case{"mistral", "[TOOL_CALLS]", " "}}) {
    const Seen seen = feed(with_form(c.form), c.begin, c.more);
    EXPECT_EQ(seen.calls, 0) << c.form << ' ' << c.begin;
    EXPECT_LE(seen.unseen, kMaxHeldBytes + 100) << c.form << ' ' << c.begin;
    EXPECT_LE(seen.largest, kMaxHeldBytes + 100) << c.form << ' ' << c.begin;
    EXPECT_GE(seen.text.size(), kMuch - kMaxHeldBytes - 100) << c.form << ' ' << c.begin;
    EXPECT_TRUE(seen.text.starts_with(c.begin)) << c.form;  // not a letter is lost
  }
}

TEST(HeldText, WhiteSpaceAroundReasoningComesOut) {
  for (const char* begin : {"", "<think>a", "\n<think> a"}) {
    const Seen seen = feed(with_form("hermes", true), begin, " ");
    EXPECT_LE(seen.largest, kMaxHeldBytes + 100) << begin;
    EXPECT_GE(seen.text.size(), kMuch - kMaxHeldBytes - 100) << begin;
  }
}

// Arguments that stream do so at any length; members of a call that mean nothing are not kept.
TEST(HeldText, ArgumentsStreamAtAnyLength) {
  const Seen object = feed(with_form("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "x");
  EXPECT_EQ(object.calls, 1);
  EXPECT_LE(object.largest, 100u);
  EXPECT_GE(object.arguments.size(), kMuch - 100);
  const Seen text = feed(with_form("qwen-coder"), "<tool_call>\n<function=f>\n<parameter=text>\n", "x");
  EXPECT_LE(text.largest, 100u);
  EXPECT_GE(text.arguments.size(), kMuch - 100);
  const Seen other = feed(with_form("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"z\": \"", "x");
  EXPECT_EQ(other.arguments, "{}");
}

// A key of a call that has begun: the call ends before it, as before any other byte that fits nowhere.
TEST(HeldText, AKeyWithoutEndEndsTheCall) {
  const Seen seen = feed(with_form("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"", "x");
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.arguments, "{}");
  EXPECT_GE(seen.text.size(), kMuch - kMaxHeldBytes - 200);
}

// A value of which nothing can be told before its end.
TEST(HeldText, ACallThatNeverEndsIsAnError) {
  for (const char* begin : {"<tool_call>\n<function=f>\n<parameter=list>\n[",
                            "<tool_call>\n<function=f>\n<parameter=text>\na\n</parameter>\n"}) {
    try {
      feed(with_form("qwen-coder"), begin, " ");
      ADD_FAILURE() << begin;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.code, "held_text_limit");
    }
  }
}

TEST(HeldText, ChoicesShareTheToolsOfTheirRequest) {
  const auto form = std::make_shared<const AnswerForm>(with_form("hermes"));
  std::vector<AnswerParser> parsers;
  for (uint64_t i = 0; i < 8; ++i) parsers.emplace_back(form, i);
  EXPECT_EQ(form.use_count(), 9);
}

}  // namespace
}  // namespace ingot
