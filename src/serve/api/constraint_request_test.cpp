// Which fields ask for what, and answers of the toy model that are held to it.
#include "serve/api/constraint_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "serve/serving_test_support.h"

namespace ingot {
namespace {

using grammar::Language;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kText = "/v1/completions";

std::string chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":120,"seed":7,"temperature":1,)" + more + "}";
}

// What a chat with these further fields asks for.
std::optional<ConstraintRequest> asked(const std::string& more) {
  const Json body = read_body(chat(more), kChatFields);
  return read_constraint(Fields(body.get_object()));
}

std::string refused(const std::string& more) {
  try {
    asked(more);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_TRUE(error.message.starts_with(error.param)) << error.message;
    return error.param;
  }
  return "";
}

std::string text_of(const Json& value) { return {value.get_string().data(), value.get_string().size()}; }

TEST(ConstraintRequest, EachSpelling) {
  struct Case {
    const char* fields;
    const char* param;
    Language language;
    const char* text;
  };
  const Case cases[] = {
      {R"("response_format":{"type":"json_object"})", "response_format.type", Language::kJsonObject, ""},
      {R"("response_format":{"type":"json_object","schema":{"type":"null"}})", "response_format.schema",
       Language::kJsonSchema, R"({"type":"null"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"b":1,"a":2}}})",
       "response_format.json_schema.schema", Language::kJsonSchema, R"({"b":1,"a":2})"},
      {R"("response_format":{"type":"json_schema","schema":true})", "response_format.schema", Language::kJsonSchema,
       "true"},
      {R"("structured_outputs":{"json":{"a":1}})", "structured_outputs.json", Language::kJsonSchema, R"({"a":1})"},
      {R"("structured_outputs":{"regex":"a+"})", "structured_outputs.regex", Language::kRegex, "a+"},
      {R"("structured_outputs":{"json_object":true})", "structured_outputs.json_object", Language::kJsonObject, ""},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", "structured_outputs.grammar", Language::kGbnf,
       "root ::= \"a\""},
      {R"("structured_outputs":{"grammar":"start: \"a\""})", "structured_outputs.grammar", Language::kLark,
       "start: \"a\""},
      {R"("guided_json":"{\"type\":\"null\"}")", "guided_json", Language::kJsonSchema, R"({"type":"null"})"},
      {R"("guided_regex":"[0-9]")", "guided_regex", Language::kRegex, "[0-9]"},
      {R"("guided_grammar":"start: \"a\"")", "guided_grammar", Language::kLark, "start: \"a\""},
      {R"("grammar":"root ::= \"a\"")", "grammar", Language::kGbnf, "root ::= \"a\""},
      {R"("json_schema":{"type":"null"})", "json_schema", Language::kJsonSchema, R"({"type":"null"})"},
  };
  for (const Case& c : cases) {
    const std::optional<ConstraintRequest> found = asked(c.fields);
    ASSERT_TRUE(found) << c.fields;
    EXPECT_EQ(found->param, c.param);
    EXPECT_EQ(found->source.language, c.language) << c.fields;
    EXPECT_EQ(found->source.text, c.text);
    EXPECT_FALSE(found->source.strict);
  }
  const auto strict = asked(R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":true}})");
  EXPECT_TRUE(strict && strict->source.strict);
  EXPECT_EQ(asked(R"("guided_choice":["a","b"])")->source.choices, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(asked(R"("response_format":{"type":"text"},"grammar":null,"guided_json":null)"));
}

TEST(ConstraintRequest, WhatIsRefusedByItsField) {
  EXPECT_EQ(refused(R"("response_format":{"type":"json_object","json_schema":{"name":"n","schema":true}})"),
            "response_format.json_schema");
  EXPECT_EQ(refused(R"("response_format":{"type":"text","schema":true})"), "response_format.schema");
  EXPECT_EQ(
      refused(R"("response_format":{"type":"json_schema","schema":true,"json_schema":{"name":"n","schema":true}})"),
      "response_format.schema");
  EXPECT_EQ(refused(R"("response_format":{"type":"json_object"},"guided_regex":"a")"), "guided_regex");
  EXPECT_EQ(refused(R"("structured_outputs":{"regex":"a","json":{}})"), "structured_outputs.regex");
  EXPECT_EQ(refused(R"("structured_outputs":{})"), "structured_outputs");
  EXPECT_EQ(refused(R"("structured_outputs":{"json_object":false})"), "structured_outputs");
  EXPECT_EQ(refused(R"("structured_outputs":{"json_object":true,"whitespace_pattern":" "})"),
            "structured_outputs.whitespace_pattern");
  EXPECT_EQ(refused(R"("response_format":{"type":"json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(refused(R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"("guided_choice":[])"), "guided_choice");
  EXPECT_EQ(refused(R"("guided_choice":[1])"), "guided_choice[0]");
  EXPECT_EQ(refused(R"("grammar":7)"), "grammar");
}

TEST(ConstraintRequest, AnswersOfAllChoicesAreHeld) {
  ToyServer server;
  const std::string more = R"("guided_choice":["red","green","blue","greenish"],"n":8)";
  const JsonObject whole = server.ok(kChat, chat(more));
  std::set<std::string> seen;
  for (const Json& item : whole.at("choices").as_array()) {
    seen.insert(text_of(item.at("message").at("content")));
    EXPECT_EQ(text_of(item.at("finish_reason")), "stop");
  }
  for (const std::string& text : seen) {
    EXPECT_TRUE((std::set<std::string>{"red", "green", "blue", "greenish"}).contains(text)) << text;
  }
  EXPECT_GT(seen.size(), 1u);
  // Streamed, and with the model's end tokens switched off, the same.
  for (const char* also : {R"(,"stream":true)", R"(,"stream":true,"ignore_eos":true)"}) {
    std::vector<std::string> streamed(8);
    for (const Json& event : server.events(kChat, chat(more + also))) {
      if (!event.is_object()) continue;
      for (const Json& item : event.at("choices").as_array()) {
        const JsonObject& delta = item.at("delta").as_object();
        if (delta.contains("content")) {
          streamed[static_cast<size_t>(item.at("index").as_int64())] += text_of(delta.at("content"));
        }
      }
    }
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(streamed[i], text_of(whole.at("choices").as_array()[i].at("message").at("content")));
    }
  }
  server.expect_idle();
}

// A random model under a pattern: each answer matches, and logprobs are the model's own numbers.
TEST(ConstraintRequest, PatternsAreHeldInCompletions) {
  ToyServer server;
  const std::string body = R"({"prompt":["a","b"],"n":4,"seed":3,"max_tokens":40,"logprobs":2,"min_tokens":30,)"
                           R"("logit_bias":{"51":-100},"structured_outputs":{"regex":"[0-9]{3}-[a-f]+x"}})";
  const JsonObject answer = server.ok(kText, body);
  ASSERT_EQ(answer.at("choices").as_array().size(), 8u);
  for (const Json& item : answer.at("choices").as_array()) {
    const std::string text = text_of(item.at("text"));
    EXPECT_TRUE(text_of(item.at("finish_reason")) == "length" || text.back() == 'x') << text;
    ASSERT_GE(text.size(), 5u);
    EXPECT_TRUE(std::ranges::all_of(text.substr(0, 3), [](char c) { return c >= '0' && c <= '9'; })) << text;
    EXPECT_EQ(text[3], '-');
    for (const Json& logprob : item.at("logprobs").at("token_logprobs").as_array()) {
      EXPECT_TRUE(logprob.is_number());
      EXPECT_LE(logprob.to_number<double>(), 0);
    }
  }
  EXPECT_EQ(server.metrics.grammars_refused.value(), 0);
}

TEST(ConstraintRequest, WhatCannotBeHeldIsRefused) {
  ToyServer server;
  EXPECT_EQ(text_of(server.error(400, kChat, chat(R"("guided_regex":"(a")")).at("param")), "guided_regex");
  EXPECT_EQ(server.metrics.grammars_refused.value(), 1);
  EXPECT_EQ(text_of(server.error(400, kChat, chat(R"x("guided_regex":"a(?=b)")x")).at("param")), "guided_regex");
}

// The model is of random weights: without the constraint no call would ever come.
TEST(ConstraintRequest, ForcedCallsAreMade) {
  ToyServer server({.threads = 1, .max_seqs = 4, .step_rows = 64, .page_rows = 16, .max_draft = 4}, kHermesTemplate);
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{"x":)"
      R"({"$ref":"#/$defs/x"}},"required":["x"],"additionalProperties":false,"$defs":{"x":{"enum":[1,"two"]}}}}},)"
      R"({"type":"function","function":{"name":"b","parameters":{"properties":{},"additionalProperties":false}}}])";
  const std::string no_space = R"(,"logit_bias":{"12":-100,"13":-100,"16":-100,"35":-100})";
  const auto calls = [&](const std::string& choice) {
    const JsonObject answer =
        server.ok(kChat, chat(tools + no_space + R"(,"n":4,"parallel_tool_calls":false,"tool_choice":)" + choice));
    std::set<std::string> seen;
    for (const Json& item : answer.at("choices").as_array()) {
      EXPECT_EQ(text_of(item.at("finish_reason")), "tool_calls");
      const JsonArray& list = item.at("message").at("tool_calls").as_array();
      EXPECT_EQ(list.size(), 1u);
      const Json& function = list.at(0).at("function");
      seen.insert(text_of(function.at("name")));
      const Json arguments = parse_json(text_of(function.at("arguments")), "arguments");
      const std::string spelled = to_json(arguments);
      const bool fits = text_of(function.at("name")) == "b" ? spelled == "{}"
                                                            : spelled == R"({"x":1})" || spelled == R"({"x":"two"})";
      EXPECT_TRUE(fits) << spelled;
    }
    return seen;
  };
  EXPECT_EQ(calls(R"({"type":"function","function":{"name":"b"}})"), (std::set<std::string>{"b"}));
  EXPECT_EQ(calls(R"({"type":"function","function":{"name":"a"}})"), (std::set<std::string>{"a"}));
  for (const std::string& name : calls(R"("required")")) EXPECT_TRUE(name == "a" || name == "b");
  const std::string bad = R"x("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)x"
                          R"x("properties":{"p":{"type":"string","pattern":"(?=a)"}}}}}],"tool_choice":"required")x";
  const JsonObject error = server.error(400, kChat, chat(bad));
  EXPECT_EQ(text_of(error.at("param")), "tools");
  EXPECT_NE(text_of(error.at("message")).find("#/properties/p/pattern of the parameters of f"), std::string::npos)
      << text_of(error.at("message"));
}

// An answer is calls of the tools, or text of the schema; and streamed it is the same.
TEST(ConstraintRequest, ToolsBesideASchema) {
  ToyServer server({.threads = 1, .max_seqs = 4, .step_rows = 64, .page_rows = 16}, kHermesTemplate);
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object",)"
      R"("properties":{"x":{"enum":[1,"two"]}},"required":["x"],"additionalProperties":false}}}],)";
  const std::string format =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)"
      R"({"enum":["<tool_call>",{"k":1},7]}}},"logit_bias":{"12":-100,"13":-100,"16":-100,"35":-100},)";
  const auto is_text = [](const std::string& text) {
    const std::string spelled = to_json(parse_json(text, "answer"));
    return spelled == "\"<tool_call>\"" || spelled == R"({"k":1})" || spelled == "7";
  };
  int n_calls = 0, n_texts = 0;
  for (int seed = 1; seed <= 6; ++seed) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"hello"}],"max_tokens":120,"temperature":1,"n":4,)" + tools + format +
        R"("parallel_tool_calls":false,"seed":)" + std::to_string(seed);
    const JsonObject whole = server.ok(kChat, body + "}");
    std::vector<std::string> texts(4), arguments(4);
    for (const Json& event : server.events(kChat, body + R"(,"stream":true})")) {
      if (!event.is_object()) continue;
      for (const Json& item : event.at("choices").as_array()) {
        const auto i = static_cast<size_t>(item.at("index").as_int64());
        const JsonObject& delta = item.at("delta").as_object();
        if (const Json* content = find(delta, "content"); content && content->is_string())
          texts[i] += text_of(*content);
        if (!delta.contains("tool_calls")) continue;
        for (const Json& call : delta.at("tool_calls").as_array()) {
          arguments[i] += text_of(call.at("function").at("arguments"));
        }
      }
    }
    for (const Json& item : whole.at("choices").as_array()) {
      const auto i = static_cast<size_t>(item.at("index").as_int64());
      const JsonObject& message = item.at("message").as_object();
      if (message.contains("tool_calls")) {
        ++n_calls;
        EXPECT_EQ(text_of(item.at("finish_reason")), "tool_calls");
        const std::string given = text_of(message.at("tool_calls").at(0).at("function").at("arguments"));
        const std::string spelled = to_json(parse_json(given, "arguments"));
        EXPECT_TRUE(spelled == R"({"x":1})" || spelled == R"({"x":"two"})") << spelled;
        EXPECT_EQ(arguments[i], given);
        EXPECT_EQ(texts[i], "");
      } else {
        ++n_texts;
        EXPECT_EQ(text_of(item.at("finish_reason")), "stop");
        EXPECT_TRUE(is_text(text_of(message.at("content")))) << text_of(message.at("content"));
        EXPECT_EQ(texts[i], text_of(message.at("content")));
        EXPECT_EQ(arguments[i], "");
      }
    }
  }
  EXPECT_GT(n_calls, 0);
  EXPECT_GT(n_texts, 0);
  server.ok(kChat, chat(tools + format + R"("tool_choice":"none")"));
  // Where a call must come, no text does.
  const JsonObject forced =
      server.ok(kChat, chat(tools + format + R"("tool_choice":"required","parallel_tool_calls":false)"));
  EXPECT_TRUE(forced.at("choices").at(0).at("message").as_object().contains("tool_calls"));
  server.expect_idle();
}

// Each is told by its own field; what is not strict is relaxed as without a schema.
TEST(ConstraintRequest, ErrorsOfToolsBesideASchema) {
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 64, .page_rows = 16}, kHermesTemplate);
  const auto tool = [](bool bad, bool strict) {
    return fmt::format(R"x("tools":[{{"type":"function","function":{{"name":"f","strict":{},"parameters":{{"type":)x"
                       R"x("object","properties":{{"p":{{"type":"string","pattern":"{}"}}}}}}}}}}],)x",
                       strict, bad ? "(?=a)" : "a");
  };
  const auto format = [](const char* pattern) {
    return fmt::format(R"x("response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{{"type":)x"
                       R"x("object","properties":{{"q":{{"type":"string","pattern":"{}"}}}}}}}}}})x",
                       pattern);
  };
  const JsonObject of_text = server.error(400, kChat, chat(tool(false, false) + format("(?=b)")));
  EXPECT_EQ(text_of(of_text.at("param")), "response_format.json_schema.schema");
  EXPECT_TRUE(text_of(of_text.at("message")).ends_with("at #/properties/q/pattern")) << text_of(of_text.at("message"));
  const JsonObject of_tool = server.error(400, kChat, chat(tool(true, true) + format("b")));
  EXPECT_EQ(text_of(of_tool.at("param")), "tools");
  EXPECT_TRUE(text_of(of_tool.at("message")).ends_with("#/properties/p/pattern of the parameters of f"))
      << text_of(of_tool.at("message"));
  const int64_t before = server.metrics.tools_relaxed.value();
  server.ok(kChat, chat(tool(true, false) + format("b")));
  EXPECT_EQ(server.metrics.tools_relaxed.value(), before + 1);
}

// Reasoning is free, and what follows it is held.
TEST(ConstraintRequest, ReasoningComesBeforeTheConstraint) {
  const std::string opens = std::string(kToyTemplate) + "{{ '<think>' }}";
  ToyServer server({.threads = 1, .max_seqs = 2, .step_rows = 64, .page_rows = 16}, opens);
  const JsonObject answer = server.ok(kChat, chat(R"("guided_choice":["yes","no"],"min_tokens":3)"));
  const Json& message = answer.at("choices").as_array()[0].at("message");
  // Random weights hardly ever write the end of it; whatever comes is reasoning then, and no text escapes.
  const bool ended = text_of(answer.at("choices").as_array()[0].at("finish_reason")) == "stop";
  const std::string text = message.at("content").is_string() ? text_of(message.at("content")) : "";
  EXPECT_TRUE(ended ? text == "yes" || text == "no" : text.empty()) << text;
  EXPECT_TRUE(message.as_object().contains("reasoning_content"));
}

TEST(ConstraintRequest, LimitsAreTold) {
  const JsonObject limits = constraint_limits({});
  for (const char* name :
       {"source_bytes", "depth", "nodes", "steps", "states", "mask_row_steps", "mask_steps", "kept_bytes"}) {
    EXPECT_GT(limits.at(name).to_number<size_t>(), 0u) << name;
  }
}

}  // namespace
}  // namespace ingot
