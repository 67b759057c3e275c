// The grammar of calls against their reader: what templates write of calls is taken by both, and whatever the grammar
// lets a model write is read as calls whose arguments fit the tools' schemas.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "base/data_test_support.h"
#include "grammar/calls/calls.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/schema/ordered_test_support.h"
#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/taught_form.h"
#include "serve/answer/calls/tool_calls.h"
#include "serve/api/forced_call.h"

namespace ingot {
namespace {

using grammar::Matcher;
using grammar::Vocabulary;
using Kind = AnswerPart::Kind;

struct Call {
  std::string name;
  Json arguments;
  bool operator==(const Call&) const = default;
};

// Every byte a token, the end the last; `specials`: names of special tokens before it.
std::shared_ptr<const Vocabulary> byte_vocabulary(const std::vector<std::string>& specials = {}) {
  std::vector<Vocabulary::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  for (const std::string& name : specials) tokens.push_back({name, true});
  tokens.push_back({"<|the end|>", true});
  const auto end = static_cast<int32_t>(tokens.size()) - 1;
  return std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
}

ToolsOfRequest tools_of(const JsonArray& functions) {
  JsonArray tools;
  for (const Json& function : functions) {
    JsonObject whole = function.get_object();
    whole["description"] = "d";
    tools.push_back(JsonObject{{"type", "function"}, {"function", std::move(whole)}});
  }
  TaughtForm any{.calls = find_call_form("hermes"), .has_tools = true};
  return read_openai_tools({{"tools", std::move(tools)}}, any);
}

std::shared_ptr<const grammar::Compiled> compiled(const ToolsOfRequest& tools, const CallForm& form, bool required,
                                                  const std::shared_ptr<const Vocabulary>& vocabulary) {
  const ConstraintRequest request = required ? forced_call(tools, form) : offered_calls(tools, form);
  return grammar::compile(request.source, vocabulary);
}

std::vector<Call> read(const CallForm& form, const ToolsOfRequest& tools, std::string_view text, size_t step,
                       std::string* left = nullptr, bool first = false) {
  AnswerParser parser({.tools = &form,
                       .tool_names = tools.names,
                       .signatures = tools.signatures,
                       .reasoning = false,
                       .calls_first = first},
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
    if (part.kind == Kind::kCallBegin) calls.push_back({part.text, "not ended"}), spelled.clear();
    if (part.kind == Kind::kCallArguments) spelled += part.text;
    if (part.kind == Kind::kText && left) *left += part.text;
    if (part.kind != Kind::kCallEnd) continue;
    try {
      calls.back().arguments = parse_json(spelled, "arguments");
    } catch (const Error&) {
      calls.back().arguments = "no JSON: " + spelled;
    }
  }
  return calls;
}

// How many sections of calls the grammar finds in a text: from a mark to where a section may end.
int sections_of(const CallForm& form, const std::shared_ptr<const grammar::Compiled>& section, std::string_view text) {
  int sections = 0;
  for (size_t at = 0;;) {
    size_t begin = std::string_view::npos;
    for (const grammar::CallStart& start : grammar::call_starts(form, section->vocabulary())) {
      begin = std::min(begin, text.find(start.mark, at));
    }
    if (begin == std::string_view::npos) return sections;
    Matcher matcher(section);
    size_t end = 0;  // of the longest section
    for (size_t i = begin; i < text.size() && matcher.advance_text(text.substr(i, 1)); ++i) {
      if (matcher.may_end()) end = i + 1;
      if (matcher.complete()) break;
    }
    sections += end > 0;
    at = end > 0 ? end : begin + 1;
  }
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

// What the template adds for an answer of these calls; empty where it refuses.
std::string answer_of(const ChatTemplate& chat, const ToolsOfRequest& tools, const std::string& text,
                      const std::vector<Call>& calls) {
  const TemplateSource source{.text = {}, .tool_use = {}, .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  JsonArray list;
  for (const Call& call : calls) {
    list.push_back(JsonObject{{"id", "abcdefgh" + std::to_string(list.size())},
                              {"type", "function"},
                              {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  const JsonObject user{{"role", "user"}, {"content", "Hi"}};
  JsonObject given{{"messages", JsonArray{user}}, {"tools", tools.tools}, {"add_generation_prompt", false}};
  try {
    const std::string before = chat.render(template_variables(given, source));
    given["messages"] = JsonArray{user, {{"role", "assistant"}, {"content", text}, {"tool_calls", list}}};
    const std::string whole = chat.render(template_variables(given, source));
    return std::string(std::ranges::mismatch(before, whole).in2, whole.end());
  } catch (const Error&) {
    return {};
  }
}

// Whether the form can carry the arguments as the template writes them: some lose what they write.
bool can_carry(const CallForm& form, const std::string& arguments) {
  const auto has = [&](const char* part) { return arguments.find(part) != std::string::npos; };
  // LFM2's template escapes nothing in texts, and neither does Gemma's in keys.
  if (form.body == CallForm::Body::kPython) return !has("'") && !has("\\");
  return true;
}

struct Case {
  std::string what;
  JsonArray functions;
  std::vector<Call> calls;
};

JsonObject function(const char* name, JsonObject properties) {
  return {{"name", name},
          {"parameters", {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}}}};
}

std::vector<Case> own_cases() {
  const auto of = [](const char* type) { return JsonObject{{"type", type}, {"description", "p"}}; };
  const JsonArray functions{
      function("get_weather", {{"city", of("string")}, {"days", of("integer")}, {"note", of("string")}}),
      function("add", {{"a", of("number")}, {"tags", of("array")}, {"deep", of("object")}})};
  std::vector<Case> cases;
  const auto add = [&](const char* what, std::vector<Call> calls) {
    cases.push_back({what, functions, std::move(calls)});
  };
  add("plain", {{"get_weather", {{"city", "Oslo"}, {"days", 3}}}});
  add("quotes, lines, Unicode", {{"get_weather", {{"city", "Pa\"ris\n \\ é 😀"}, {"note", "two\n\nlines"}}}});
  add("marks", {{"get_weather", {{"city", "<b>a < b</b> {x} [y] z"}}}});
  add("nested", {{"add", {{"a", 1.5}, {"tags", {"x", "y"}}, {"deep", {{"k", {{"l", nullptr}, {"m", true}}}}}}}});
  add("empty", {{"get_weather", JsonObject()}});
  add("two", {{"get_weather", {{"city", "Oslo"}}}, {"add", {{"a", -2}, {"tags", JsonArray()}}}});
  return cases;
}

// Schemas of tools with valid arguments, of the sample of MaskBench.
std::vector<Case> sample_cases() {
  std::vector<Case> cases;
  const std::string packed = test_data("json-schema/maskbench_sample.tar.gz");
  if (!std::filesystem::exists(packed)) return cases;
  const std::string folder = ::testing::TempDir() + "/ingot_calls_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  if (std::system(("tar xzf '" + packed + "' -C '" + folder + "'").c_str()) != 0) return cases;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("BFCL")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& path : files) {
    const Json file = parse_json(read_text_file(path.string()), path.filename().string());
    const Json& schema = file.at("schema");
    if (!schema.is_object() || !find(schema.get_object(), "properties")) continue;
    for (const Json& test : file.at("tests").get_array()) {
      if (!test.at("valid").get_bool() || !test.at("data").is_object()) continue;
      const std::string ordered = grammar::OrderedWriter(schema).write(test.at("data"));
      cases.push_back({path.filename().string(),
                       {JsonObject{{"name", "f.g"}, {"parameters", schema}}},
                       {{"f.g", parse_json(ordered, "instance")}}});
      break;
    }
  }
  std::filesystem::remove_all(folder);
  return cases;
}

TEST(CallGrammar, TakesWhatTemplatesWrite) {
  const auto vocabulary = byte_vocabulary();
  std::vector<Case> cases = own_cases();
  std::ranges::move(sample_cases(), std::back_inserter(cases));
  // All cases of the sample take a minute; every template has some of them.
  const bool all = std::getenv("INGOT_LONG") != nullptr;
  size_t at = 0, n_templates = 0, n_checked = 0;
  for (const auto& [name, source] : published_templates()) {
    const ChatTemplate chat = ChatTemplate::parse(source);
    const TaughtForm taught = taught_form(chat, {});
    if (!taught.calls || taught.calls->bare) continue;
    bool rendered = false;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& one = cases[i];
      if (!all && i >= 6 && (i + at) % 12 != 0) continue;
      if (taught.calls->one_call && one.calls.size() > 1) continue;
      if (!can_carry(*taught.calls, to_json(one.calls[0].arguments))) continue;
      const ToolsOfRequest tools = tools_of(one.functions);
      const std::string text = answer_of(chat, tools, i % 2 == 0 ? "" : "I look.", one.calls);
      if (text.empty() || read(*taught.calls, tools, text, text.size()) != one.calls) continue;  // call_forms_test.cpp
      rendered = true;
      ++n_checked;
      EXPECT_EQ(read(*taught.calls, tools, text, 1), one.calls) << name << ' ' << one.what << '\n' << text;
      const auto section = compiled(tools, *taught.calls, false, vocabulary);
      EXPECT_TRUE(section->grammar().relaxed().empty()) << name << ' ' << one.what;
      const bool list = !taught.calls->open.empty();
      EXPECT_EQ(sections_of(*taught.calls, section, text), list ? 1 : static_cast<int>(one.calls.size()))
          << name << ' ' << taught.calls->name << ' ' << one.what << '\n'
          << text;
    }
    n_templates += rendered;
    ++at;
  }
  EXPECT_GE(n_templates, 5u);
  EXPECT_GE(n_checked, 20u);
}

// Small texts and lists, so that random answers end.
JsonArray small_functions() {
  const JsonObject text{{"type", "string"}, {"maxLength", 4}};
  return {function("get", {{"city", text},
                           {"days", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}},
                           {"unit", {{"enum", {"C", "F \"x\"", 7}}}},
                           {"mixed", {{"type", {"string", "boolean", "null"}}, {"maxLength", 5}}}}),
          function("add", {{"tags", {{"type", "array"}, {"items", text}, {"maxItems", 2}}},
                           {"deep",
                            {{"type", "object"},
                             {"properties", {{"k", {{"type", "boolean"}}}, {"n", {{"type", "null"}}}}},
                             {"additionalProperties", false}}}}),
          function("none", JsonObject())};
}

std::vector<std::string> names_of_marks(const CallForm& form) {
  std::vector<std::string> names;
  for (const std::string_view text : {form.open, form.close, form.call_open, form.call_close, form.name_close,
                                      form.key_open, form.value_close, form.quote}) {
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t size = mark_size(text.substr(i));
      const std::string name(text.substr(i, size));
      if (size > 4 && name.find('"') == std::string::npos && std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

// An answer of random tokens of the masks, as text.
std::string random_answer(const std::shared_ptr<const grammar::Compiled>& compiled, std::mt19937& random,
                          const std::vector<std::string>& specials = {}) {
  const Vocabulary& vocabulary = compiled->vocabulary();
  Matcher matcher(compiled);
  std::string text;
  std::vector<uint32_t> words(vocabulary.words());
  for (int step = 0; step < 30000; ++step) {
    EXPECT_TRUE(matcher.mask(words)) << matcher.failure() << '\n' << text;
    if (matcher.failed()) return {};
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary.size(); ++token) {
      if ((words[static_cast<size_t>(token) / 32] >> (token & 31) & 1) != 0) allowed.push_back(token);
    }
    const int32_t token = allowed[random() % allowed.size()];
    EXPECT_TRUE(matcher.advance(token));
    if (vocabulary.is_end(token)) return text;
    text += token < 256 ? std::string(1, static_cast<char>(token)) : specials[static_cast<size_t>(token) - 256];
    if (matcher.complete()) return text;
  }
  ADD_FAILURE() << "it does not end: " << text.substr(0, 400);
  return {};
}

TEST(CallGrammar, WhateverIsRequiredIsAValidCall) {
  const ToolsOfRequest offered = tools_of(small_functions());
  std::mt19937 random(3);
  for (const CallForm* form : call_forms()) {
    for (const bool special : {false, true}) {
      const auto specials = special ? names_of_marks(*form) : std::vector<std::string>();
      const auto vocabulary = byte_vocabulary(specials);
      ToolsOfRequest tools = offered;
      tools.forced = tools.names;
      tools.one_call = special;
      const auto whole = compiled(tools, *form, true, vocabulary);
      for (int i = 0; i < 12; ++i) {
        const std::string text = random_answer(whole, random, specials);
        std::string left;
        const std::vector<Call> calls = read(*form, tools, text, text.size(), &left);
        ASSERT_GE(calls.size(), 1u) << form->name << ": " << text;
        if (special) {
          EXPECT_EQ(calls.size(), 1u) << form->name << ": " << text;
        }
        if (form->separator == "<|eom|>") left.clear();  // what ends a message is taken away with its channel
        EXPECT_EQ(left.find_first_not_of(" \n\t\r"), std::string::npos)
            << form->name << ": " << text << "\nleft " << left;
        for (const Call& call : calls) {
          const auto at = std::ranges::find(tools.names, call.name) - tools.names.begin();
          ASSERT_LT(at, 3) << form->name << ": " << text;
          ASSERT_TRUE(call.arguments.is_object()) << form->name << ": " << text << '\n' << to_json(call.arguments);
          const Json& schema = tools.tools[static_cast<size_t>(at)].at("function").at("parameters");
          const auto held = grammar::compile({.language = grammar::Language::kJsonSchema, .text = to_json(schema)},
                                             byte_vocabulary());
          Matcher matcher(held);
          const std::string ordered = grammar::OrderedWriter(schema).write(call.arguments);
          EXPECT_TRUE(matcher.advance_text(ordered) && matcher.may_end()) << form->name << ": " << text << '\n'
                                                                          << to_json(call.arguments);
        }
      }
    }
  }
}

// Calls of valid arguments and nothing else, or the other text as it is, though marks of calls stand in it.
TEST(CallGrammar, CallsOrATextInstead) {
  ToolsOfRequest tools = tools_of(small_functions());
  const Json schema = parse_json(R"({"type":"object","properties":{"note":{"type":"string","maxLength":4},
      "name":{"enum":["get","x"]}},"required":["note"],"additionalProperties":false})",
                                 "schema");
  std::mt19937 random(4);
  for (const CallForm* form : call_forms()) {
    const auto specials = names_of_marks(*form);
    const auto vocabulary = byte_vocabulary(specials);
    const ConstraintRequest text_wanted{
        .param = "p", .source = {.language = grammar::Language::kJsonSchema, .text = to_json(schema)}};
    const ConstraintRequest wanted = calls_or(text_wanted, tools, *form);
    EXPECT_EQ(wanted.text_param, "p");
    const auto whole = grammar::compile(wanted.source, vocabulary);
    const auto held = grammar::compile(text_wanted.source, vocabulary);
    int n_calls = 0, n_texts = 0;
    for (int i = 0; i < 24; ++i) {
      const std::string text = random_answer(whole, random, specials);
      std::string left, pieces;
      const std::vector<Call> calls = read(*form, tools, text, text.size(), &left, true);
      EXPECT_EQ(read(*form, tools, text, 1, &pieces, true), calls) << form->name << ": " << text;
      EXPECT_EQ(pieces, left) << form->name << ": " << text;
      Matcher matcher(held);
      const bool is_text = matcher.advance_text(left) && matcher.may_end();
      if (form->separator == "<|eom|>" && !calls.empty()) left.clear();
      EXPECT_EQ(calls.empty(), is_text) << form->name << ": " << text << "\nleft " << left;
      if (!calls.empty()) {
        EXPECT_EQ(left.find_first_not_of(" \n\t\r"), std::string::npos) << form->name << ": " << text;
      }
      ++(calls.empty() ? n_texts : n_calls);
    }
    EXPECT_GT(n_calls, 0) << form->name;
    EXPECT_GT(n_texts, 0) << form->name;
    // What begins calls elsewhere is text within the other text.
    const std::string marked = fmt::format("{{\"note\":\"{}{{}}\",\"name\":\"get\"}}", section_mark(*form));
    std::string left;
    const std::string head = form->text_name.empty() ? "" : ">>>all\n";
    EXPECT_TRUE(read(*form, tools, head + marked, 1, &left, true).empty()) << form->name;
    EXPECT_EQ(left, marked) << form->name;
  }
}

TEST(CallGrammar, ASchemaThatCannotBeHeldIsToldOfOrRefused) {
  const JsonObject bad{
      {"name", "f"},
      {"parameters", {{"type", "object"}, {"properties", {{"a", {{"type", "string"}, {"pattern", "(?=x)"}}}}}}}};
  const ToolsOfRequest tools = tools_of({bad, function("g", JsonObject())});
  for (const char* name : {"hermes", "qwen-coder", "lfm2", "gemma4"}) {
    const auto section = compiled(tools, *find_call_form(name), false, byte_vocabulary());
    EXPECT_EQ(section->grammar().relaxed(), std::vector<std::string>{"f"}) << name;
    ToolsOfRequest strict = tools;
    strict.strict = {true, false};
    EXPECT_THROW(compiled(strict, *find_call_form(name), false, byte_vocabulary()), grammar::GrammarError) << name;
    ToolsOfRequest forced = tools;
    forced.forced = {"f"};
    try {
      compiled(forced, *find_call_form(name), true, byte_vocabulary());
      ADD_FAILURE() << name;
    } catch (const grammar::GrammarError& error) {
      EXPECT_EQ(grammar::place_in_tools(error.place()), "#/properties/a/pattern of the parameters of f") << name;
    }
  }
}

// Where text stands bare, the types of the schema say what it is.
TEST(CallGrammar, MixedTypesAreToldApartByTheSchema) {
  const ToolsOfRequest tools =
      tools_of({function("f", {{"a", {{"type", {"string", "number"}}}},
                               {"b", {{"enum", {"1", "2"}}}},
                               {"c", {{"anyOf", {JsonObject{{"type", "string"}}, JsonObject{{"type", "null"}}}}}},
                               {"d", {{"type", {"boolean", "integer"}}}}})});
  const CallForm& form = *find_call_form("qwen-coder");
  const auto arguments = [&](const std::string& key, const std::string& value) {
    const std::vector<Call> calls = read(
        form, tools,
        "<tool_call>\n<function=f>\n<parameter=" + key + ">\n" + value + "\n</parameter>\n</function>\n</tool_call>",
        3);
    return calls.size() == 1 ? to_json(calls[0].arguments) : "no call";
  };
  EXPECT_EQ(arguments("a", "5"), R"({"a":5})");
  EXPECT_EQ(arguments("a", "true"), R"({"a":"true"})");
  EXPECT_EQ(arguments("a", "[1]"), R"({"a":"[1]"})");
  EXPECT_EQ(arguments("a", "007"), R"({"a":"007"})");
  EXPECT_EQ(arguments("b", "1"), R"({"b":"1"})");
  EXPECT_EQ(arguments("c", "null"), R"({"c":null})");
  EXPECT_EQ(arguments("c", "3"), R"({"c":"3"})");
  EXPECT_EQ(arguments("d", "true"), R"({"d":true})");
}

TEST(CallGrammar, LongNumbersKeepTheirSpelling) {
  const std::string number = "123456789012345678901234567890";
  const ToolsOfRequest tools = tools_of({function("f", {{"a", {{"type", "integer"}}}})});
  for (const auto& [name, text] :
       {std::pair("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + number + "}}</tool_call>"),
        std::pair("glm", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>" + number + "</arg_value>\n</tool_call>"),
        std::pair("lfm2", "<|tool_call_start|>[f(a=" + number + ")]<|tool_call_end|>")}) {
    const CallForm& form = *find_call_form(name);
    AnswerParser parser({.tools = &form, .tool_names = tools.names, .signatures = tools.signatures}, 1);
    std::string spelled;
    for (const AnswerPart& part : parser.push(text)) {
      if (part.kind == Kind::kCallArguments) spelled += part.text;
    }
    EXPECT_NE(spelled.find(": " + number + "}"), std::string::npos) << name << ": " << spelled;
    EXPECT_EQ(sections_of(form, compiled(tools, form, false, byte_vocabulary()), text), 1) << name;
  }
}

// A text of a grammar or a pattern, and what is given out of its call.
TEST(CallGrammar, CustomToolsGetATextOfTheirGrammar) {
  const Json body = parse_json(R"({"tools": [
      {"type": "custom", "custom": {"name": "sum", "description": "adds", "format": {"type": "grammar", "grammar":
        {"syntax": "lark", "definition": "start: NUMBER (\"+\" NUMBER)* QUOTE?\nNUMBER: /[0-9]{1,3}/\nQUOTE: \"\\\"\\n\""}}}},
      {"type": "custom", "custom": {"name": "code", "format": {"type": "grammar", "grammar":
        {"syntax": "regex", "definition": "[a-c]{2}\\n?"}}}}]})",
                               "body");
  ToolsOfRequest tools = read_openai_tools(body.get_object(), {.calls = find_call_form("hermes"), .has_tools = true});
  ASSERT_EQ(tools.names.size(), 2u);
  tools.forced = tools.names;
  tools.one_call = true;
  std::mt19937 random(5);
  for (const char* name : {"hermes", "qwen-coder", "lfm2", "gemma4", "harmony", "deepseek-v3.2"}) {
    const CallForm& form = *find_call_form(name);
    const auto whole = compiled(tools, form, true, byte_vocabulary());
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_answer(whole, random);
      AnswerParser parser(
          {.tools = &form, .tool_names = tools.names, .signatures = tools.signatures, .custom = {"sum", "code"}}, 1);
      std::string input, called;
      for (size_t at = 0; at < text.size(); at += 3) {
        for (const AnswerPart& part : parser.push(text.substr(at, 3))) {
          if (part.kind == Kind::kCallBegin) called = part.text;
          if (part.kind == Kind::kCallArguments) input += part.text;
          EXPECT_TRUE(part.kind == Kind::kText || part.custom);
        }
      }
      const auto held = grammar::compile(
          called == "sum" ? grammar::Source{.language = grammar::Language::kLark,
                                            .text = std::string(tools.custom.at("sum").at("lark").get_string())}
                          : grammar::Source{.language = grammar::Language::kRegex, .text = "[a-c]{2}\\n?"},
          byte_vocabulary());
      Matcher matcher(held);
      EXPECT_TRUE(matcher.advance_text(input) && matcher.may_end()) << name << ": " << text << "\n" << input;
    }
  }
}

}  // namespace
}  // namespace ingot
