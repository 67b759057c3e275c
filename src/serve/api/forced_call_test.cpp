#include "serve/api/forced_call.h"

#include <gtest/gtest.h>

#include "files/json.h"
#include "serve/api/api_error.h"

namespace ingot {
namespace {

ToolsOfRequest two_tools(std::vector<std::string> forced) {
  const auto tool = [](const char* name) {
    return JsonObject{{"type", "function"},
                      {"function", {{"name", name}, {"description", ""}, {"parameters", {{"type", "object"}}}}}};
  };
  return {.tools = {tool("a"), tool("b")}, .names = {"a", "b"}, .signatures = {}, .forced = std::move(forced)};
}

ConstraintRequest made(const char* form, std::vector<std::string> forced) {
  return forced_call(two_tools(std::move(forced)), *find_call_form(form));
}

TEST(ForcedCall, StandsBetweenTheFormsMarks) {
  EXPECT_EQ(made("hermes", {"a", "b"}).lead, "<tool_call>\n");
  EXPECT_EQ(made("hermes", {"a", "b"}).tail, "\n</tool_call>");
  EXPECT_EQ(made("llama3", {"a"}).lead, "");
  EXPECT_EQ(made("mistral", {"a"}).lead, "[TOOL_CALLS]");
  EXPECT_EQ(made("mistral", {"a"}).tail, "");
  EXPECT_EQ(made("toolcall", {"a"}).lead, "<TOOLCALL>");
  EXPECT_EQ(made("toolcall", {"a"}).tail, "</TOOLCALL>");
  EXPECT_EQ(made("mistral-args", {"b"}).lead, "[TOOL_CALLS]b[ARGS]");
  EXPECT_EQ(made("kimi-k2", {"b"}).lead,
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.b:0<|tool_call_argument_begin|>");
  EXPECT_EQ(made("kimi-k2", {"b"}).tail, "<|tool_call_end|><|tool_calls_section_end|>");
  EXPECT_EQ(made("apertus", {"a"}).tail, "}]<|tools_suffix|>");
}

TEST(ForcedCall, SchemaHasTheFormsKeys) {
  const Json list = parse_json(made("command", {"a", "b"}).source.text, "schema");
  EXPECT_EQ(list.at("type"), "array");
  EXPECT_EQ(list.at("items").at("anyOf").get_array().size(), 2u);
  EXPECT_EQ(list.at("items").at("anyOf").at(0).at("required"), Json(JsonArray{"tool_name", "parameters"}));
  const Json object = parse_json(made("llama3", {"b"}).source.text, "schema");
  EXPECT_EQ(object.at("anyOf").at(0).at("properties").at("name").at("const"), "b");
}

TEST(ForcedCall, RefusesWhereItCannotHold) {
  for (const char* form : {"qwen-coder", "glm", "lfm2", "gemma4", "solar"}) {
    EXPECT_THROW(made(form, {"a"}), ApiError) << form;
  }
  EXPECT_THROW(made("deepseek-v3", {"a", "b"}), ApiError);
  EXPECT_NO_THROW(made("deepseek-v3", {"a"}));
}

}  // namespace
}  // namespace ingot
