#include "serve/api/tools_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/fields.h"

namespace ingot {
namespace {

const TaughtForm kHermes{.calls = find_call_form("hermes"), .has_tools = true};
const TaughtForm kUnknown{.calls = nullptr, .has_tools = true};

using Reader = ToolsOfRequest (*)(const JsonObject& body, const TaughtForm& form);

ToolsOfRequest read(Reader reader, std::string_view body, const TaughtForm& form = kHermes) {
  return reader(parse_json(body, "body").as_object(), form);
}

// The field that is refused; "" where none is.
std::string refused(Reader reader, std::string_view body, const TaughtForm& form = kHermes) {
  try {
    read(reader, body, form);
    return "";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_TRUE(error.message.starts_with(error.param + " ")) << error.message;
    return error.param;
  }
}

constexpr const char* kOne = R"({"tools": [{"type": "function", "function": {"name": "f"}}]})";

TEST(ToolsRequest, OpenAiToolsGoToTheTemplate) {
  const ToolsOfRequest r = read(read_openai_tools, R"({"tools": [
    {"type": "function", "function": {"name": "f", "description": "adds", "strict": true,
     "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "g.h-1", "description": null, "parameters": null}}],
    "tool_choice": null, "parallel_tool_calls": null})");
  EXPECT_EQ(r.names, (std::vector<std::string>{"f", "g.h-1"}));
  EXPECT_FALSE(r.one_call);
  ASSERT_EQ(r.tools.size(), 2u);
  EXPECT_EQ(to_json(r.tools[0]),
            R"({"type":"function","function":{"name":"f","description":"adds","parameters":{"type":"object",)"
            R"("properties":{"x":{"type":"integer"}}}}})");
  EXPECT_EQ(to_json(r.tools[1]),
            R"({"type":"function","function":{"name":"g.h-1","description":"","parameters":{"type":"object",)"
            R"("properties":{}}}})");
}

TEST(ToolsRequest, NoToolsNeedNoForm) {
  for (const char* body : {"{}", R"({"tools": null})", R"({"tools": []})", R"({"tools": [], "tool_choice": "auto"})"}) {
    EXPECT_TRUE(read(read_openai_tools, body, TaughtForm{}).tools.empty());
    if (std::string_view(body).find("choice") == std::string_view::npos) {
      EXPECT_TRUE(read(read_anthropic_tools, body, kUnknown).tools.empty());
    }
  }
  EXPECT_TRUE(read(read_openai_tools, R"({"parallel_tool_calls": false})").one_call);
}

// K lists of K references to them are K^5 of them: a body of 17 KB that would take weeks.
TEST(ToolsRequest, ReferencesThatLeadToEachOtherEndSoon) {
  const auto times = [](int n, std::string_view text) {
    std::string all;
    for (int i = 0; i < n; ++i) all += fmt::format("{}{}", i ? "," : "", text);
    return all;
  };
  const std::string schema = fmt::format(
      R"({{"x":{{"anyOf":[{0}],"oneOf":[{0}],"allOf":[{0}]}},"y":{{"enum":[{1}],"anyOf":[{0},{2}]}},)"
      R"("properties":{{"a":{{"anyOf":[{0}]}},"b":{{"type":"string"}},"c":{{"$ref":"#/y"}},"d":{{"$ref":"#{3}"}}}}}})",
      times(100, R"({"$ref":"#/x"})"), times(100, "1"), times(100, R"({"$ref":"#/y"})"), std::string(500, '/'));
  for (const auto& [reader, tool] :
       {std::pair(&read_openai_tools,
                  R"({{"tools":[{{"type":"function","function":{{"name":"f","parameters":{}}}}}]}})"),
        std::pair(&read_anthropic_tools, R"({{"tools":[{{"name":"f","input_schema":{}}}]}})")}) {
    const auto began = std::chrono::steady_clock::now();
    const ToolsOfRequest r = read(reader, fmt::format(fmt::runtime(tool), schema));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
    ASSERT_EQ(r.signatures.size(), 1u);
    EXPECT_EQ(r.signatures[0].keys.size(), 4u);
  }
}

TEST(ToolsRequest, NoneOffersNothing) {
  const ToolsOfRequest r =
      read(read_openai_tools, R"({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"})",
           TaughtForm{});
  EXPECT_TRUE(r.tools.empty());
  EXPECT_TRUE(r.names.empty());
}

TEST(ToolsRequest, RefusesByTheFieldsName) {
  const auto openai = [](std::string_view body) { return refused(read_openai_tools, body); };
  EXPECT_EQ(openai(R"({"tools": {}})"), "tools");
  EXPECT_EQ(openai(R"({"tools": [3]})"), "tools[0]");
  EXPECT_EQ(openai(R"({"tools": [{"function": {"name": "f"}}]})"), "tools[0].type");
  EXPECT_EQ(openai(R"({"tools": [{"type": "web_search"}]})"), "tools[0].type");
  EXPECT_EQ(openai(R"({"tools": [{"type": "function"}]})"), "tools[0].function");
  EXPECT_EQ(openai(R"({"tools": [{"type": "function", "function": {}}]})"), "tools[0].function.name");
  EXPECT_EQ(openai(R"({"tools": [{"type": "function", "function": {"name": "a b"}}]})"), "tools[0].function.name");
  EXPECT_EQ(openai(R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]})"),
            "tools[0].function.parameters");
  EXPECT_EQ(openai(R"({"tools": [{"type": "function", "function": {"name": "f"}},
                                 {"type": "function", "function": {"name": "f"}}]})"),
            "tools[1].function.name");
  for (const char* choice : {R"("required")", R"("any")", "3", R"({"type": "function", "function": {"name": "f"}})"}) {
    EXPECT_EQ(openai(std::string(R"({"tool_choice": )") + choice + "}"), "tool_choice");
  }
  const std::string one = R"({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )";
  EXPECT_EQ(openai(one + R"({"type": "function", "function": {"name": "g"}}})"), "tool_choice.function.name");
  EXPECT_EQ(openai(one + R"({"type": "function"}})"), "tool_choice.function");
  EXPECT_EQ(openai(one + R"({"type": "custom"}})"), "tool_choice.custom");
  EXPECT_EQ(openai(one + R"({"type": "other"}})"), "tool_choice.type");
  EXPECT_EQ(openai(one + R"({"type": "allowed_tools"}})"), "tool_choice.allowed_tools");
  EXPECT_EQ(openai(one + R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}})"),
            "tool_choice.allowed_tools.tools");
  EXPECT_EQ(openai(R"({"parallel_tool_calls": 1})"), "parallel_tool_calls");
  EXPECT_EQ(refused(read_openai_tools, kOne), "");
  EXPECT_EQ(refused(read_openai_tools, kOne, TaughtForm{}), "tools");
  EXPECT_EQ(refused(read_openai_tools, kOne, kUnknown), "tools");
  std::string many = R"({"tools": [)";
  for (size_t i = 0; i <= kMaxTools; ++i) {
    many +=
        (i ? "," : "") + std::string(R"({"type": "function", "function": {"name": "f)") + std::to_string(i) + "\"}}";
  }
  EXPECT_EQ(openai(many + "]}"), "tools");
}

TEST(ToolsRequest, AnthropicToolsGoToTheTemplate) {
  const ToolsOfRequest r = read(read_anthropic_tools, R"({"tools": [{"name": "f", "description": "adds",
    "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}})");
  EXPECT_TRUE(r.one_call);
  ASSERT_EQ(r.tools.size(), 1u);
  EXPECT_EQ(to_json(r.tools[0]),
            R"({"type":"function","function":{"name":"f","description":"adds","parameters":{"type":"object"}}})");
  const auto anthropic = [](std::string_view body) { return refused(read_anthropic_tools, body); };
  EXPECT_EQ(anthropic(R"({"tool_choice": {"type": "any"}})"), "tool_choice");
  EXPECT_EQ(anthropic(R"({"tool_choice": {"type": "tool", "name": "f"}})"), "tool_choice");
  EXPECT_EQ(anthropic(R"({"tool_choice": {"type": "tool"}, "tools": [{"name": "f"}]})"), "tool_choice.name");
  EXPECT_EQ(anthropic(R"({"tool_choice": {"type": "tool", "name": "g"}, "tools": [{"name": "f"}]})"),
            "tool_choice.name");
  EXPECT_EQ(anthropic(R"({"tool_choice": {"type": "required"}})"), "tool_choice.type");
  EXPECT_EQ(anthropic(R"({"tool_choice": "auto"})"), "tool_choice");
  EXPECT_EQ(anthropic(R"({"tools": [{"type": "bash_20250124", "name": "bash"}]})"), "tools[0].type");
  EXPECT_EQ(anthropic(R"({"tools": [{"name": ""}]})"), "tools[0].name");
  EXPECT_EQ(anthropic(R"({"tools": [{"name": "f", "input_schema": []}]})"), "tools[0].input_schema");
}

TEST(ToolsRequest, AnthropicForcesCalls) {
  const std::string tools =
      R"({"tools": [{"name": "f", "input_schema": {}, "strict": true}, {"name": "g", "input_schema": {}}],)";
  const ToolsOfRequest any = read(read_anthropic_tools, tools + R"("tool_choice": {"type": "any"}})");
  EXPECT_EQ(any.forced, (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(any.strict, (std::vector<bool>{true, false}));
  EXPECT_FALSE(any.one_call);
  const ToolsOfRequest one =
      read(read_anthropic_tools,
           tools + R"("tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true}})");
  EXPECT_EQ(one.forced, std::vector<std::string>{"f"});
  EXPECT_EQ(one.names.size(), 2u);  // the other one is told to the model all the same
  EXPECT_EQ(one.strict, (std::vector<bool>{true, false}));
  EXPECT_TRUE(one.one_call);
  EXPECT_TRUE(read(read_anthropic_tools, tools + R"("tool_choice": {"type": "none"}})").tools.empty());
}

TEST(ToolsRequest, ArgumentsBecomeObjects) {
  Json messages = parse_json(R"([{"role": "user", "content": "x"},
    {"role": "assistant", "tool_calls": [
      {"function": {"name": "a", "arguments": "{\"k\": [1, 2]}"}}, {"function": {"name": "b", "arguments": "not json"}},
      {"function": {"name": "c", "arguments": ""}}, {"function": {"name": "d", "arguments": null}},
      {"function": {"name": "e", "arguments": {"k": 1}}}, {"function": {"name": "f", "arguments": "3"}}, 5]},
    {"tool_calls": null}, 7])",
                             "messages");
  prepare_calls(messages.as_array());
  EXPECT_EQ(to_json(messages.as_array()[1].as_object()["tool_calls"]),
            R"([{"function":{"name":"a","arguments":{"k":[1,2]}}},{"function":{"name":"b","arguments":"not json"}},)"
            R"({"function":{"name":"c","arguments":{}}},{"function":{"name":"d","arguments":{}}},)"
            R"({"function":{"name":"e","arguments":{"k":1}}},{"function":{"name":"f","arguments":"3"}},5])");
}

// One message whose calls have these arguments.
JsonArray calls_with(const std::vector<std::string>& arguments) {
  JsonArray calls;
  for (const std::string& text : arguments) {
    calls.push_back(JsonObject{{"function", JsonObject{{"name", "f"}, {"arguments", text}}}});
  }
  return {JsonObject{{"role", "assistant"}, {"tool_calls", calls}}};
}

std::string param_of_arguments(const std::vector<std::string>& arguments) {
  JsonArray messages = calls_with(arguments);
  try {
    prepare_calls(messages);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param;
  }
  return {};
}

std::string list_of(size_t values) {
  std::string text = "{\"a\":[0";
  for (size_t i = 3; i < values; ++i) text += ",0";
  return text + "]}";
}

// In objects of a thousand.
std::string members_of(size_t members) {
  std::string text = "{\"a\":[{";
  for (size_t i = 1; i < members; ++i) text += fmt::format("{}\"{}\":0", i % 1000 == 0 ? "},{" : i > 1 ? "," : "", i);
  return text + "}]}";
}

// Text that spells JSON is a part of the body: nothing gets past its limits in quotes.
TEST(ToolsRequest, ArgumentsKeepToTheLimitsOfABody) {
  const std::string first = "messages[0].tool_calls[0].function.arguments";
  const std::string second = "messages[0].tool_calls[1].function.arguments";
  EXPECT_EQ(param_of_arguments({list_of(kMaxBodyValues)}), "");
  EXPECT_EQ(param_of_arguments({list_of(kMaxBodyValues + 1)}), first);
  EXPECT_EQ(param_of_arguments({list_of(kMaxBodyValues), "{}"}), second);
  EXPECT_EQ(param_of_arguments({members_of(kMaxBodyMembers)}), "");
  EXPECT_EQ(param_of_arguments({members_of(kMaxBodyMembers + 1)}), first);
  EXPECT_EQ(param_of_arguments({members_of(kMaxBodyMembers), "{\"a\":1}"}), second);
  const auto deep = [](size_t levels) {  // inside of the six that lead to them
    return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  EXPECT_EQ(param_of_arguments({deep(kMaxBodyDepth - 6)}), "");
  EXPECT_EQ(param_of_arguments({deep(kMaxBodyDepth - 5)}), first);
  std::string wide = "{\"0\":0";
  for (size_t i = 1; i < kMaxObjectMembers; ++i) wide += fmt::format(",\"{}\":0", i);
  EXPECT_EQ(param_of_arguments({wide + "}"}), "");
  EXPECT_EQ(param_of_arguments({wide + ",\"x\":0}"}), first);
  EXPECT_EQ(param_of_arguments({std::string(100000, 'x'), "[1", "{"}), "");
}

}  // namespace
}  // namespace ingot
