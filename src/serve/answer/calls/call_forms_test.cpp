// Calls as published templates write them are read back as they were, however the answer is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "base/data_test_support.h"
#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/taught_form.h"
#include "serve/answer/calls/tool_calls.h"

namespace ingot {
namespace {

using Kind = AnswerPart::Kind;
using Value = ToolSignature::Value;

const std::vector<ToolSignature> kTools = {
    {"get_weather", {{"city", Value::kText}, {"days", Value::kJson}, {"note", Value::kText}}},
    {"add", {{"a", Value::kJson}, {"tags", Value::kJson}, {"deep", Value::kJson}}}};

struct Call {
  std::string name;
  Json arguments;
  bool operator==(const Call&) const = default;
};

JsonArray tools_for_template() {
  const auto tool = [](const char* name, JsonObject properties) {
    return JsonObject{
        {"type", "function"},
        {"function",
         {{"name", name},
          {"description", "d"},
          {"parameters", {{"type", "object"}, {"properties", std::move(properties)}, {"required", JsonArray()}}}}}};
  };
  const auto of = [](const char* type) { return JsonObject{{"type", type}, {"description", "p"}}; };
  return {tool("get_weather", {{"city", of("string")}, {"days", of("integer")}, {"note", of("string")}}),
          tool("add", {{"a", of("number")}, {"tags", of("array")}, {"deep", of("object")}})};
}

// What the template adds for an answer of these calls; empty where it refuses.
std::string answer_of(const ChatTemplate& chat, const std::string& text, const std::vector<Call>& calls) {
  const TemplateSource source{.text = {}, .tool_use = {}, .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  JsonArray list;
  for (const Call& call : calls) {
    list.push_back(JsonObject{{"id", "abcdefgh" + std::to_string(list.size())},
                              {"type", "function"},
                              {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  const JsonObject user{{"role", "user"}, {"content", "Hi"}};
  JsonObject given{{"messages", JsonArray{user}}, {"tools", tools_for_template()}, {"add_generation_prompt", false}};
  try {
    const std::string before = chat.render(template_variables(given, source));
    given["messages"] = JsonArray{user, {{"role", "assistant"}, {"content", text}, {"tool_calls", list}}};
    const std::string whole = chat.render(template_variables(given, source));
    return std::string(std::ranges::mismatch(before, whole).in2, whole.end());
  } catch (const Error&) {
    return {};
  }
}

std::vector<Call> read(const CallForm& form, std::string_view text, size_t step) {
  AnswerParser parser({.tools = &form, .tool_names = {"get_weather", "add"}, .signatures = kTools, .reasoning = false},
                      1);
  std::vector<AnswerPart> parts;
  const auto take = [&](std::vector<AnswerPart> more) {
    for (AnswerPart& part : more) append_part(parts, std::move(part));
  };
  for (size_t at = 0; at < text.size(); at += step) take(parser.push(text.substr(at, step)));
  take(parser.finish());
  std::vector<Call> calls;
  std::string spelled;
  for (const AnswerPart& part : parts) {
    if (part.kind == Kind::kCallBegin) calls.push_back({part.text, nullptr}), spelled.clear();
    if (part.kind == Kind::kCallArguments) spelled += part.text;
    if (part.kind != Kind::kCallEnd) continue;
    try {
      calls.back().arguments = parse_json(spelled, "arguments");
    } catch (const Error&) {
      calls.back().arguments = "no JSON: " + spelled;
    }
  }
  return calls;
}

std::map<std::string, std::string> published_templates() {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("chat-templates/llama.cpp/"))) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path());
    sources[entry.path().stem()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return sources;
}

const std::vector<std::vector<Call>> kAnswers = {
    {{"get_weather", {{"city", "Oslo"}, {"days", 3}}}},
    {{"get_weather", {{"city", "Pa\"ris\n \\ é 😀"}, {"note", "two\n\nlines"}}}},
    {{"get_weather", {{"city", "<b>a < b</b> {x} [y] 'z'"}}}},
    {{"add", {{"a", 1.5}, {"tags", {"x", "y"}}, {"deep", {{"k", {{"l", nullptr}, {"m", true}}}}}}}},
    {{"get_weather", JsonObject()}},
    {{"get_weather", {{"city", "Oslo"}}}, {"add", {{"a", -2}, {"tags", JsonArray()}}}},
};

// Templates that render no call of ours, so that their form is known by their source alone.
const std::set<std::string> kRenderNone = {
    "CohereForAI-c4ai-command-r-plus-tool_use",  // wants another shape of parameters
    "Kimi-K2-Instruct",                          // changes a list, which the sandbox forbids
    "Kimi-K2-Thinking",
    "LFM2.5-Instruct",                       // has no place for calls
    "fireworks-ai-llama-3-firefunction-v2",  // wants a variable of its own
    "ibm-granite-granite-3.3-2B-Instruct",   // leaves calls out
    "llama-cpp-deepseek-r1",                 // wants arguments as text
    "meetkai-functionary-medium-v3.2",
};

// Templates that tell of tools in a form that is not read.
const std::set<std::string> kUnread = {
    "MiniMax-M3",  // nests values in marks of their own
};

TEST(CallForms, PublishedTemplatesAreReadBack) {
  size_t n_forms = 0, n_read = 0;
  for (const auto& [name, source] : published_templates()) {
    const ChatTemplate chat = ChatTemplate::parse(source);
    const TaughtForm taught = taught_form(chat, {});
    EXPECT_EQ(taught.has_tools && !taught.calls, kUnread.contains(name)) << name;
    if (!taught.calls) continue;
    ++n_forms;
    if (taught.calls->bare || kRenderNone.contains(name)) continue;
    ++n_read;
    for (const std::vector<Call>& calls : kAnswers) {
      if (taught.calls->one_call && calls.size() > 1) continue;
      // LFM2's template escapes no quotes in its texts: such a text cannot be read by anyone.
      const bool has_quotes = to_json(calls[0].arguments).find('\'') != std::string::npos;
      if (taught.calls->body == CallForm::Body::kPython && has_quotes) continue;
      for (const char* before : {"", "I look."}) {
        const std::string text = answer_of(chat, before, calls);
        ASSERT_FALSE(text.empty()) << name;
        EXPECT_EQ(read(*taught.calls, text, text.size()), calls) << name << " " << taught.calls->name << "\n" << text;
        EXPECT_EQ(read(*taught.calls, text, 1), calls) << name << "\n" << text;
        EXPECT_EQ(read(*taught.calls, text, 7), calls) << name << "\n" << text;
      }
    }
  }
  // All of llama.cpp's templates where they are, or the few of this project.
  EXPECT_GE(n_forms, 10u);
  EXPECT_GE(n_read, 8u);
  if (n_forms > 20) {
    EXPECT_GE(n_forms, 47u);
    EXPECT_GE(n_read, 37u);
  }
}

TEST(CallForms, EveryFormHasWhatItNeeds) {
  for (const CallForm* form : call_forms()) {
    EXPECT_FALSE(form->needs[0].empty()) << form->name;
    EXPECT_EQ(find_call_form(form->name), form);
    EXPECT_EQ(also_read(*form).front(), form);
    const bool named = form->body != CallForm::Body::kObject;
    EXPECT_TRUE(form->bare || !form->open.empty() || !form->call_open.empty()) << form->name;
    EXPECT_TRUE(!named || !form->name_close.empty() || !form->key_open.empty()) << form->name;
    if (form->body == CallForm::Body::kParameters) {
      EXPECT_FALSE(form->key_open.empty() || form->key_close.empty() || form->value_close.empty() ||
                   form->call_close.empty())
          << form->name;
    }
  }
  EXPECT_EQ(find_call_form("nothing"), nullptr);
}

// Nothing is lost of an answer that has no call, whatever marks it is made of, and every cut gives the same.
TEST(CallForms, PiecesInDisorder) {
  std::mt19937 random(5);
  for (const CallForm* form : call_forms()) {
    const std::vector<std::string_view> pieces = {form->open,
                                                  form->close,
                                                  form->call_open,
                                                  form->call_close,
                                                  form->separator,
                                                  form->id_close,
                                                  form->id_open,
                                                  form->name_close,
                                                  form->key_open,
                                                  form->key_close,
                                                  form->value_close,
                                                  form->attribute_close,
                                                  "add",
                                                  "{\"a\": 1}",
                                                  "a",
                                                  " ",
                                                  "\n",
                                                  "{",
                                                  "}",
                                                  "'x'",
                                                  "é",
                                                  ","};
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
      std::string whole, bytes;
      for (std::string* out : {&whole, &bytes}) {
        AnswerParser parser({.tools = form, .tool_names = {"add"}, .signatures = kTools, .reasoning = false}, 1);
        std::vector<AnswerPart> parts;
        const size_t step = out == &whole ? text.size() + 1 : 1;
        for (size_t at = 0; at < text.size(); at += step) {
          for (AnswerPart& part : parser.push(std::string_view(text).substr(at, step))) append_part(parts, part);
        }
        for (AnswerPart& part : parser.finish()) append_part(parts, part);
        for (const AnswerPart& part : parts) *out += std::to_string(static_cast<int>(part.kind)) + part.text + "|";
        if (parser.n_calls() == 0 && !text.empty()) {
          EXPECT_EQ(parts.size(), 1u) << form->name << ": " << text;
          EXPECT_EQ(parts.empty() ? "" : parts[0].text, text) << form->name;
        }
      }
      EXPECT_EQ(whole, bytes) << form->name << ": " << text;
    }
  }
}

}  // namespace
}  // namespace ingot
