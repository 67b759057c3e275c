#include "serve/responses/response_input.h"

#include <gtest/gtest.h>

#include <ctime>

#include "files/json.h"
#include "serve/responses/response_tools.h"

namespace ingot {
namespace {

const ServedModel kModel = [] {
  ServedModel model;
  model.source.text = "{{ messages }}";  // knows no developers
  return model;
}();

Json parsed(const char* text) { return parse_json(text, "test"); }

TEST(ResponseInput, ATurnOfTheAssistantIsOneMessage) {
  ResponseInput input(kModel);
  input.add_instructions("Be brief.");
  input.add(parsed(R"([
    {"role": "developer", "content": "And kind."},
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1}"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "shell", "input": "ls"},
    {"type": "function_call_output", "call_id": "c1", "output": "1"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
    {"type": "message", "role": "assistant", "content": "Done."},
    {"role": "user", "content": "c"}])"),
            "input");
  input.finish();
  EXPECT_EQ(Json(input.messages()), parsed(R"([
    {"role": "system", "content": "Be brief.\n\nAnd kind."},
    {"role": "user", "content": "a\nb"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
      {"id": "c2", "type": "function", "function": {"name": "shell", "arguments": {"input": "ls"}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "1", "name": "f"},
    {"role": "tool", "tool_call_id": "c2", "content": "2", "name": "shell"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "c"}])"));
  EXPECT_EQ(input.n_turns(), 2u);
  EXPECT_EQ(Json(input.without_turns(1)), parsed(R"([
    {"role": "system", "content": "Be brief.\n\nAnd kind."}, {"role": "user", "content": "c"}])"));
  // What is kept says the same when it is read again.
  ResponseInput again(kModel);
  again.add_instructions("Be brief.");
  again.add_kept(input.take_items());
  again.finish();
  EXPECT_EQ(again.messages(), input.messages());
}

// Each is added to what is there: 4,096 of a body's 4 MiB are copied once, not two thousand times.
TEST(ResponseInput, ManyMessagesOfTheSystemAreAppended) {
  ResponseInput input(kModel);
  const std::string text(1000, 'x');
  JsonArray items;
  for (int i = 0; i < 4096; ++i) items.push_back(JsonObject{{"role", "system"}, {"content", text}});
  const std::clock_t before = std::clock();
  input.add(items, "input");
  input.finish();
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.5);  // 2 s and more when each was copied
  ASSERT_EQ(input.messages().size(), 1u);
  EXPECT_EQ(input.messages()[0].get_object().at("content").get_string().size(), 4096u * 1002 - 2);
}

TEST(ResponseInput, WhatIsMissingIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"role": "user"}])", "input[0].content"},
      {R"([{"content": "a"}])", "input[0].role"},
      {R"([{"type": "function_call", "call_id": "1", "name": "f"}])", "input[0].arguments"},
      {R"([{"type": "custom_tool_call", "call_id": "1", "name": "f"}])", "input[0].input"},
      {R"([{"type": "function_call_output", "output": ""}])", "input[0].call_id"},
      {R"([{"role": "user", "content": [{"type": "input_text"}]}])", "input[0].content[0].text"},
      {"[]", "input"}};
  for (const auto& [items, param] : cases) {
    try {
      ResponseInput(kModel).add(parsed(items), "input");
      FAIL() << items;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.param, param);
      EXPECT_TRUE(error.message.starts_with(param)) << error.message;
    }
  }
}

class ResponseToolsTest : public testing::Test {
 protected:
  static ResponseTools read(const char* body) {
    TaughtForm form;
    form.has_tools = true;
    form.calls = call_forms().front();
    return read_response_tools(parsed(body).get_object(), form);
  }
  static std::string refused(const char* body) {
    try {
      read(body);
    } catch (const ApiError& error) {
      EXPECT_TRUE(error.message.starts_with(error.param)) << error.message;
      return error.param;
    }
    return "";
  }
};

TEST_F(ResponseToolsTest, FlatToolsAndThoseThatRunElsewhere) {
  const ResponseTools tools = read(R"({"tools": [{"type": "web_search_preview"},
    {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true},
    {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}},
    {"type": "mcp", "server_label": "x"}, {"type": "mcp", "server_label": "y"}]})");
  EXPECT_EQ(tools.offered.names, (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(tools.offered.custom.at("g"), (JsonObject{{"regex", "a+"}}));
  EXPECT_EQ(tools.left_out, (std::vector<std::string>{"web_search_preview", "mcp"}));
  EXPECT_EQ(tools.told.size(), 2u);
  EXPECT_TRUE(tools.offered.forced.empty());
}

TEST_F(ResponseToolsTest, Choices) {
  constexpr const char* kNamed = R"({"tools": [{"type": "web_search"}, {"type": "function", "name": "f"},
    {"type": "custom", "name": "g"}], "tool_choice": {"type": "custom", "name": "g"}})";
  EXPECT_EQ(read(kNamed).offered.forced, (std::vector<std::string>{"g"}));
  constexpr const char* kAllowed = R"({"tools": [{"type": "web_search"}, {"type": "function", "name": "f"},
    {"type": "custom", "name": "g"}], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [
    {"type": "web_search"}, {"type": "function", "name": "f"}]}})";
  EXPECT_EQ(read(kAllowed).offered.forced, (std::vector<std::string>{"f"}));
}

TEST_F(ResponseToolsTest, WhatIsRefusedIsNamedByItsOwnPath) {
  EXPECT_EQ(refused(R"({"tools": [{"type": "function"}]})"), "tools[0].name");
  EXPECT_EQ(refused(R"({"tools": [{"type": "functions", "name": "f"}]})"), "tools[0].type");
  EXPECT_EQ(refused(R"({"tools": [{"type": "mcp"}, {"type": "function", "name": "f g"}]})"), "tools[1].name");
  EXPECT_EQ(
      refused(R"({"tools": [{"type": "mcp"}, {"type": "function", "name": "f"}, {"type": "custom", "name": "f"}]})"),
      "tools[2].name");
  EXPECT_EQ(refused(R"({"tools": [{"type": "function", "name": "f", "parametres": {}}]})"), "tools[0].parametres");
  EXPECT_EQ(refused(R"({"tools": [{"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "lark"}}]})"),
            "tools[0].format.definition");
  EXPECT_EQ(refused(R"({"tools": [{"type": "mcp"}, {"type": "custom", "name": "f", "format": {"type": "grammar"}}]})"),
            "tools[1].format.syntax");
  EXPECT_EQ(
      refused(R"({"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "g"}})"),
      "tool_choice.name");
  EXPECT_EQ(refused(R"({"tools": [{"type": "mcp"}], "tool_choice": {"type": "mcp"}})"), "tool_choice.type");
  EXPECT_EQ(refused(R"({"tools": [{"type": "mcp"}], "tool_choice": "required"})"), "tool_choice");
}

}  // namespace
}  // namespace ingot
