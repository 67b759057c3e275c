// Answers of gpt-oss and DeepSeek as their publishers show them, and reasoning between other marks, however they are
// cut.
#include "serve/answer/channels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/data_test_support.h"
#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/taught_form.h"
#include "serve/answer/calls/tool_calls.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;

std::string read(const AnswerForm& form, std::string_view text, size_t step) {
  AnswerParser parser(form, 7);
  std::vector<AnswerPart> parts;
  const auto take = [&](const std::vector<AnswerPart>& more) {
    for (const AnswerPart& part : more) append_part(parts, part);
  };
  for (size_t at = 0; at < text.size(); at += step) take(parser.push(text.substr(at, step)));
  take(parser.finish());
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

std::string read(const AnswerForm& form, std::string_view text) {
  std::string whole = read(form, text, text.size() + 1);
  for (const size_t step : {1, 2, 5}) EXPECT_EQ(read(form, text, step), whole) << step;
  return whole;
}

AnswerForm form_of(const char* tools, ReasoningMarks marks, bool opened = false) {
  return {.tools = tools ? find_call_form(tools) : nullptr,
          .tool_names = {"get_current_weather"},
          .signatures = {},
          .reasoning = true,
          .opened = opened,
          .marks = std::move(marks)};
}

ReasoningMarks marks_of(const char* name) {
  std::ifstream file(test_data(std::string("chat-templates/llama.cpp/") + name + ".jinja"));
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  if (source.empty()) return {};
  return taught_reasoning(ChatTemplate::parse(source), {}).value_or(ReasoningMarks{.open = "", .close = ""});
}

const ReasoningMarks kHarmony{.open = "<|channel|>analysis<|message|>",
                              .close = "<|end|>",
                              .channels = true,
                              .lead = "<|start|>assistant<|channel|>final<|message|>",
                              .header = "<|start|>assistant"};

TEST(Channels, HarmonyAnalysisAndFinal) {
  const AnswerForm plain = form_of(nullptr, kHarmony), tools = form_of("harmony", kHarmony);
  const std::string text =
      "<|channel|>analysis<|message|>User asks: \"What is 2 + 2?\" Simple arithmetic. Provide answer.<|end|>"
      "<|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>";
  for (const AnswerForm& form : {plain, tools}) {
    EXPECT_EQ(read(form, text), "~User asks: \"What is 2 + 2?\" Simple arithmetic. Provide answer.~2 + 2 = 4.");
  }
  EXPECT_EQ(read(form_of(nullptr, kHarmony, true), "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."),
            "~Hm.~Yes.");
}

TEST(Channels, HarmonyCalls) {
  const AnswerForm form = form_of("harmony", kHarmony);
  const char* expected =
      "~Need to use function get_current_weather.~«get_current_weather {\"location\":\"San Francisco\"}»";
  EXPECT_EQ(read(form,
                 "<|channel|>analysis<|message|>Need to use function get_current_weather.<|end|><|start|>assistant"
                 "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>"
                 "{\"location\":\"San Francisco\"}<|call|>"),
            expected);
  // The receiver may stand in the role, and the type be left out.
  EXPECT_EQ(read(form,
                 "<|channel|>analysis<|message|>Need to use function get_current_weather.<|end|><|start|>assistant "
                 "to=functions.get_current_weather<|channel|>commentary<|message|>{\"location\":\"San Francisco\"}"),
            expected);
  EXPECT_EQ(read(form,
                 "<|channel|>commentary<|message|>**Action plan**: look.<|end|><|start|>assistant<|channel|>commentary "
                 "to=functions.get_current_weather <|constrain|>json<|message|>{}<|call|>"),
            "**Action plan**: look.«get_current_weather {}»");
  // Without tools a call's content is all that is left of it.
  EXPECT_EQ(read(form_of(nullptr, kHarmony),
                 "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>"),
            "{\"a\":1}");
}

TEST(Channels, NothingIsLostOfWhatHasNoHeader) {
  EXPECT_EQ(read(form_of(nullptr, kHarmony), "Hello <b>"), "Hello <b>");
  EXPECT_EQ(read(form_of("harmony", kHarmony), ""), "");
}

TEST(Channels, DeepSeekCallsAfterReasoning) {
  const AnswerForm form = form_of("deepseek-v3.1", {}, true);
  EXPECT_EQ(read(form,
                 "Look it up.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_current_weather<｜tool▁sep｜>"
                 "{\"location\": \"Tokyo\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            "~Look it up.~«get_current_weather {\"location\": \"Tokyo\"}»");
  EXPECT_EQ(
      read(form_of("deepseek-v3", {}, true),
           "Hm.\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n"
           "```json\n{\"location\": \"Tokyo\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>"
           "get_current_weather\n```json\n{\"location\": \"Paris\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
      "~Hm.~«get_current_weather {\"location\": \"Tokyo\"}»«get_current_weather {\"location\": \"Paris\"}»");
  EXPECT_EQ(read(form_of("deepseek-v3.2", {}, true),
                 "Hm.</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_current_weather\">\n"
                 "<｜DSML｜parameter name=\"location\" string=\"true\">Tokyo</｜DSML｜parameter>\n"
                 "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
                 "</｜DSML｜function_calls>"),
            "~Hm.~«get_current_weather {\"location\": \"Tokyo\", \"days\": 3}»");
}

TEST(Channels, OtherMarksOfReasoning) {
  for (const ReasoningMarks& marks :
       {ReasoningMarks{.open = "[THINK]", .close = "[/THINK]"}, ReasoningMarks{.open = "◁think▷", .close = "◁/think▷"},
        ReasoningMarks{.open = "<|channel>thought", .close = "<channel|>"},
        ReasoningMarks{.open = "<seed:think>", .close = "</seed:think>"}}) {
    const AnswerForm form = form_of("hermes", marks);
    EXPECT_EQ(read(form, marks.open + "\na ◁ [ < b\n" + marks.close + "\n\nYes. [THINK]"), "~a ◁ [ < b~Yes. [THINK]");
    const AnswerForm opened = form_of("hermes", marks, true);
    EXPECT_EQ(read(opened, "a" + marks.close + "b"), "~a~b");
    EXPECT_TRUE(opens_reasoning("<s>x " + marks.open + "\n", marks));
    EXPECT_TRUE(closes_reasoning("<s>x " + marks.close + "\n\n", marks));
  }
}

TEST(Channels, MarksAreTakenFromTheTemplate) {
  if (marks_of("openai-gpt-oss-120b") == ReasoningMarks{}) GTEST_SKIP() << "no published templates";
  EXPECT_EQ(marks_of("openai-gpt-oss-120b"), kHarmony);
  EXPECT_EQ(marks_of("Qwen-Qwen3-0.6B"), ReasoningMarks{});
  for (const auto& [name, open, close] : {std::tuple("MiniMax-M3", "<mm:think>", "</mm:think>"),
                                          std::tuple("google-gemma-4-31B-it", "<|channel>thought", "<channel|>"),
                                          std::tuple("mistralai-Ministral-3-14B-Reasoning-2512", "[THINK]", "[/THINK]"),
                                          std::tuple("Qwen-Qwen2.5-7B-Instruct", "", "")}) {
    EXPECT_EQ(marks_of(name).open, open) << name;
    EXPECT_EQ(marks_of(name).close, close) << name;
  }
}

TEST(Channels, FunctionarysPromptBeginsTheHeader) {
  AnswerForm form{.tools = find_call_form("functionary"),
                  .tool_names = {"f"},
                  .signatures = {},
                  .reasoning = false,
                  .call_opened = true};
  EXPECT_EQ(read(form, "all\nHello there."), "Hello there.");
  EXPECT_EQ(read(form, "f\n{\"a\": 1}"), "«f {\"a\": 1}»");
  EXPECT_EQ(read(form, "all\nI look.>>>f\n{\"a\": 1}"), "I look.«f {\"a\": 1}»");
}

}  // namespace
}  // namespace ingot
