// What becomes of a model's text, however it is cut: whole, byte by byte, and in random pieces.
#include "serve/answer/answer_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "serve/answer/calls/tool_calls.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

std::vector<AnswerPart> parts_of(const AnswerForm& form, std::string_view text, const std::vector<size_t>& cuts) {
  AnswerParser parser(form, 7);
  std::vector<AnswerPart> joined;
  size_t from = 0;
  const auto take = [&](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      EXPECT_TRUE(part.kind == Kind::kCallEnd || !part.text.empty());
      append_part(joined, part);
    }
  };
  for (const size_t cut : cuts) {
    take(parser.push(text.substr(from, cut - from)));
    from = cut;
  }
  take(parser.push(text.substr(from)));
  take(parser.finish());
  return joined;
}

// For people: text as it is, ~reasoning~, name(arguments).
std::string show(const std::vector<AnswerPart>& parts) {
  std::string shown;
  for (const AnswerPart& part : parts) {
    if (part.kind == Kind::kText) shown += part.text;
    if (part.kind == Kind::kReasoning) shown += "~" + part.text + "~";
    if (part.kind == Kind::kCallBegin) shown += "«" + part.text + " ";
    if (part.kind == Kind::kCallArguments) shown += part.text;
    if (part.kind == Kind::kCallEnd) shown += "»";
  }
  return shown;
}

// The parts, after a check that no way of cutting the text changes them.
std::string read(const AnswerForm& form, std::string_view text) {
  const std::vector<AnswerPart> whole = parts_of(form, text, {});
  std::vector<size_t> every;
  for (size_t i = 1; i < text.size(); ++i) every.push_back(i);
  EXPECT_EQ(show(parts_of(form, text, every)), show(whole)) << text;
  EXPECT_EQ(parts_of(form, text, every), whole) << text;
  std::mt19937 random(static_cast<unsigned>(text.size()));
  for (int i = 0; i < 5; ++i) {
    std::vector<size_t> cuts;
    for (size_t at = 1; at < text.size(); ++at) {
      if (random() % 6 == 0) cuts.push_back(at);
    }
    EXPECT_EQ(parts_of(form, text, cuts), whole) << text;
  }
  return show(whole);
}

const CallForm* form_of(std::string_view name) { return find_call_form(name); }

AnswerForm with_tools(std::string_view form) {
  return {.tools = form_of(form), .tool_names = {"weather", "add"}, .signatures = {}, .reasoning = false};
}

const AnswerForm kHermes = with_tools("hermes");
const AnswerForm kLlama = with_tools("llama3");
const AnswerForm kMistral = with_tools("mistral");
const AnswerForm kThinks{.tools = form_of("hermes"), .tool_names = {"weather"}, .signatures = {}, .reasoning = true};
const AnswerForm kOpened{
    .tools = form_of("hermes"), .tool_names = {"weather"}, .signatures = {}, .reasoning = true, .opened = true};

TEST(AnswerParser, PlainTextPasses) {
  for (const AnswerForm& form : {AnswerForm{}, kHermes, kLlama, kMistral, kThinks}) {
    for (const char* text : {"", "Hello.", "  two spaces, ü and 😀\n", "a < b and [x] {y}", "<", "[TOOL", "<tool_cal",
                             "x<think>y</think>", "\n"}) {
      EXPECT_EQ(read(form, text), text);
    }
  }
  EXPECT_EQ(read({}, "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>"),
            "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>");
}

TEST(AnswerParser, ReasoningIsTakenApart) {
  EXPECT_EQ(read(kThinks, "<think>\nFirst, then.\n\nSo.\n</think>\n\nThe answer.\n"),
            "~First, then.\n\nSo.~The answer.\n");
  EXPECT_EQ(read(kThinks, " \n<think>a < b </thin </think>x"), "~a < b </thin~x");
  EXPECT_EQ(read(kThinks, "<think>\n\n</think>\n\nNo thought."), "No thought.");
  EXPECT_EQ(read(kThinks, "<think>cut in the midd"), "~cut in the midd~");
  EXPECT_EQ(read(kThinks, "<think>cut in the mark </thi"), "~cut in the mark </thi~");
  EXPECT_EQ(read(kThinks, "<thin"), "<thin");
  EXPECT_EQ(read(kThinks, "  <thinking> aloud"), "  <thinking> aloud");
  EXPECT_EQ(read(kThinks, "<think>a</think>b<think>c</think>"), "~a~b<think>c</think>");
  EXPECT_EQ(read(kThinks, "<think>Hm.</think>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"),
            "~Hm.~«weather {}»");
}

TEST(AnswerParser, ThePromptMayHaveOpenedTheReasoning) {
  EXPECT_EQ(read(kOpened, "\nI think.\n</think>\n\nYes."), "~I think.~Yes.");
  EXPECT_EQ(read(kOpened, "<think>\nI think.</think>Yes."), "~I think.~Yes.");
  EXPECT_EQ(read(kOpened, "\n</think>Yes."), "Yes.");
  EXPECT_EQ(read(kOpened, "never closed"), "~never closed~");
  EXPECT_EQ(read(kOpened, " <th"), "~<th~");
  EXPECT_TRUE(opens_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_reasoning("  "));
}

TEST(AnswerParser, HermesCalls) {
  EXPECT_EQ(read(kHermes, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>"),
            "«weather {\"city\": \"Köln\"}»");
  EXPECT_EQ(read(kHermes,
                 "I look.\n<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":[1,{\"y\":\"}\\\"]\"}]}}</tool_call>\n"
                 "<tool_call>{\"name\":\"b\",\"arguments\":{}}</tool_call>\n"),
            "I look.\n«a {\"x\":[1,{\"y\":\"}\\\"]\"}]}»«b {}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call> and more"), "«a {}» and more");
  // The other order, other members, no arguments, null, and arguments as text.
  EXPECT_EQ(read(kHermes, "<tool_call>{\"id\": [1, {}], \"arguments\": {\"k\": 1}, \"name\": \"a\"}</tool_call>"),
            "«a {\"k\": 1}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\": \"a\"}</tool_call>"), "«a {}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\": \"a\", \"arguments\": null}</tool_call>"), "«a {}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"k\\\": 2}\"}</tool_call>"),
            "«a {\"k\": 2}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"na\\u006de\": \"\\u0061\", \"arguments\": {}}</tool_call>"), "«a {}»");
}

TEST(AnswerParser, WhatOnlyLooksLikeACallIsText) {
  for (const char* text :
       {"<tool_call>not json</tool_call>", "<tool_call>\n[1]</tool_call>", "<tool_call>{}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>", "<tool_call>{\"name\": 3}", "<tool_call>{\"name\" \"a\"}",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}", "<tool_call>{\"name\": \"a\", \"arguments\": 5}",
        "<tool_call>{\"name\": \"a\", \"arguments\": [1]}", "  \n<tool_call> oh", "<tool_call>", "<tool_call>{\"name",
        "<tool_call>{\"name\": \"a\"", "<tool_call>{'name': 'a'}"}) {
    EXPECT_EQ(read(kHermes, text), text);
  }
  EXPECT_EQ(read(kHermes, "<tool_call>no <tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>"),
            "<tool_call>no «a {}»");
}

TEST(AnswerParser, ForgivesWhatModelsOftenForget) {
  // The last brace, the closing mark, the escape of a line break.
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\": \"a\", \"arguments\": {\"k\": 1}\n</tool_call>done"),
            "«a {\"k\": 1}»done");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{}}\n<tool_call>{\"name\":\"b\",\"arguments\":{}}"),
            "«a {}»«b {}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{}} so be it"), "«a {}» so be it");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{\"k\":\"1\n2\t\"}}</tool_call>"),
            "«a {\"k\":\"1\\n2\\t\"}»");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{\"k\":[1}</tool_call>x"), "«a {\"k\":[1}»x");
  // Cut by the length: what there is has been sent.
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{\"k\":\"v"), "«a {\"k\":\"v");
  EXPECT_EQ(read(kHermes, "<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool"), "«a {}»");
}

TEST(AnswerParser, LlamaCalls) {
  EXPECT_EQ(read(kLlama, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}"),
            "«weather {\"city\": \"Oslo\"}»");
  EXPECT_EQ(read(kLlama, "\n{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}\n"), "«add {}»");
  EXPECT_EQ(read(kLlama, "<|python_tag|>{\"name\": \"anything\", \"parameters\": {}}"), "«anything {}»");
  EXPECT_EQ(read(kLlama, "Let me.<|python_tag|> {\"name\": \"add\", \"arguments\": {}}"), "Let me.«add {}»");
  EXPECT_EQ(read(kLlama, "{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"weather\", \"parameters\": {\"a\":1}}"),
            "«add {}»«weather {\"a\":1}»");
  EXPECT_EQ(read(kLlama, "{\"name\": \"add\", \"parameters\": {}} and then"), "«add {}» and then");
  EXPECT_EQ(read(kLlama, "{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"x\"}"), "«add {}»; {\"name\": \"x\"}");
  // JSON that a reader asked for is no call.
  for (const char* text : {"{\"name\": \"Bob\", \"parameters\": {}}", "{\"name\": \"add\"}", "{\"a\": [1, 2]}", "{}",
                           "Text, then {\"name\": \"add\", \"parameters\": {}}", "<|python_tag|>print(1)",
                           "{\"name\": \"add\", \"parameters\": [1]}"}) {
    EXPECT_EQ(read(kLlama, text), text);
  }
}

TEST(AnswerParser, MistralCalls) {
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"c\": \"P]\"}}]"),
            "«weather {\"c\": \"P]\"}»");
  EXPECT_EQ(
      read(kMistral,
           "[TOOL_CALLS][{\"name\":\"a\",\"arguments\":{},\"id\":\"123456789\"}, {\"name\":\"b\",\"arguments\":{}}]\n"),
      "«a {}»«b {}»");
  EXPECT_EQ(read(kMistral, "Hm.[TOOL_CALLS]{\"name\":\"a\",\"arguments\":{}}"), "Hm.«a {}»");
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS]weather[ARGS]{\"c\": 1}[TOOL_CALLS]add[CALL_ID]123456789[ARGS] {}"),
            "«weather {\"c\": 1}»«add {}»");
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS]weather[ARGS]{\"c\": 1} then"), "«weather {\"c\": 1}» then");
  EXPECT_EQ(read(kMistral, "[TOOL_CALLS] [{\"name\":\"a\",\"arguments\":{}} oops"), "«a {}» oops");
  for (const char* text :
       {"[TOOL_CALLS] nothing here", "[TOOL_CALLS] []", "[TOOL_CALLS] [3]", "[TOOL_CALLS]name[ARGS]5",
        "[TOOL_CALLS]name[ARG", "[TOOL_CALLS]a[b[ARGS]{}", "[TOOL_CALLS] [{\"name\": \"a", "[x][ARGS]{}"}) {
    EXPECT_EQ(read(kMistral, text), text);
  }
}

TEST(AnswerParser, CallsHaveIdsOfTheirOwn) {
  std::set<std::string> ids;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (int index = 0; index < 5; ++index) {
      const std::string id = call_id(*form_of("hermes"), seed, index), nine = call_id(*form_of("mistral"), seed, index);
      EXPECT_TRUE(id.starts_with("call_") && id.size() == 29) << id;
      EXPECT_EQ(nine.size(), 9u);
      EXPECT_TRUE(ids.insert(id).second);
      EXPECT_TRUE(ids.insert(nine).second);
    }
  }
  AnswerParser parser(kHermes, 3);
  const std::vector<AnswerPart> parts = parser.push("<tool_call>{\"name\":\"a\",\"arguments\":{}}");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].id, call_id(*form_of("hermes"), 3, 0));
  EXPECT_EQ(parts[0].index, 0);
  EXPECT_EQ(parts[1].index, 0);
}

TEST(AnswerParser, SaysWhenOneCallIsWhole) {
  AnswerForm form = kHermes;
  form.one_call = true;
  AnswerParser parser(form, 1);
  parser.push("<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":1}");
  EXPECT_EQ(parser.n_calls(), 1);
  EXPECT_FALSE(parser.complete());
  parser.push("}");
  EXPECT_TRUE(parser.complete());
}

// Arguments come while they are written, not at the end.
TEST(AnswerParser, ArgumentsAreStreamed) {
  AnswerParser parser(kHermes, 1);
  parser.push("<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":");
  const std::vector<AnswerPart> parts = parser.push("12");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].text, "12");
}

// Without white space, the marks of reasoning and show()'s own.
std::string bare(std::string text) {
  for (const std::string_view mark : {"<think>", "</think>", "~", " ", "\n"}) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) text.erase(at, mark.size());
  }
  return text;
}

// Random texts made of what parsers stumble over. Nothing but white space and marks may be missing from what comes out.
TEST(AnswerParser, NothingIsLostWhateverIsWritten) {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "<think>",
                                           "</think>",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "[CALL_ID]",
                                           "<|python_tag|>",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           "\"name\"",
                                           "\"arguments\"",
                                           "\"parameters\"",
                                           ":",
                                           ",",
                                           ";",
                                           "\\",
                                           "\"add\"",
                                           "null",
                                           "x",
                                           "é",
                                           " ",
                                           "\n",
                                           "{\"name\": \"add\", \"arguments\": {",
                                           "{\"name\": \"add\", \"parameters\": {}}",
                                           "<",
                                           "</",
                                           "\"k\": 1"};
  std::mt19937 random(11);
  size_t calls = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text;
    for (size_t n = random() % 14; n > 0; --n) text += pieces[random() % pieces.size()];
    AnswerForm form = with_tools(std::vector{"", "hermes", "llama3", "mistral"}[random() % 4]);
    form.reasoning = random() % 2 == 0;
    form.opened = form.reasoning && random() % 2 == 0;
    const std::string shown = read(form, text);
    const bool has_call = shown.find("«") != std::string::npos;
    calls += has_call;
    if (!has_call) {
      EXPECT_EQ(form.reasoning ? bare(shown) : shown, form.reasoning ? bare(text) : text);
    }
    EXPECT_LE(std::ranges::count(shown, 'x'), std::ranges::count(text, 'x')) << text;  // nothing comes twice
  }
  EXPECT_GT(calls, 100u);
}

TEST(AnswerParser, ReasoningIsReadFromTheTemplate) {
  EXPECT_TRUE(has_reasoning("… '<think>' …"));
  EXPECT_FALSE(has_reasoning("… think …"));
}

}  // namespace
}  // namespace ingot
