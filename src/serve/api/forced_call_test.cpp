#include "serve/api/forced_call.h"

#include <gtest/gtest.h>

#include "files/json.h"

namespace ingot {
namespace {

ToolsOfRequest two_tools(std::vector<std::string> forced) {
  const auto tool = [](const char* name) {
    return JsonObject{{"type", "function"},
                      {"function", {{"name", name}, {"description", ""}, {"parameters", {{"type", "object"}}}}}};
  };
  return {.tools = {tool("a"), tool("b")}, .names = {"a", "b"}, .signatures = {}, .forced = std::move(forced)};
}

TEST(ForcedCall, AsksForTheToolsThatAreForced) {
  const ConstraintRequest request = forced_call(two_tools({"b"}), *find_call_form("hermes"));
  EXPECT_EQ(request.calls, ConstraintRequest::Calls::kForced);
  const Json text = parse_json(request.source.text, "calls");
  EXPECT_EQ(text.at("form"), "hermes");
  EXPECT_EQ(text.at("required"), true);
  ASSERT_EQ(text.at("tools").get_array().size(), 1u);
  EXPECT_EQ(text.at("tools").at(0).at("name"), "b");
}

TEST(ForcedCall, OffersAllTools) {
  ToolsOfRequest tools = two_tools({});
  tools.strict = {false, true};
  tools.one_call = true;
  const Json text = parse_json(offered_calls(tools, *find_call_form("glm")).source.text, "calls");
  EXPECT_EQ(text.at("required"), false);
  EXPECT_EQ(text.at("one"), true);
  ASSERT_EQ(text.at("tools").get_array().size(), 2u);
  EXPECT_EQ(text.at("tools").at(0).at("strict"), false);
  EXPECT_EQ(text.at("tools").at(1).at("strict"), true);
}

TEST(ForcedCall, OrAText) {
  const ConstraintRequest text{.param = "format",
                               .source = {.language = grammar::Language::kJsonSchema, .text = "{}", .strict = true}};
  const ConstraintRequest request = calls_or(text, two_tools({}), *find_call_form("hermes"));
  EXPECT_EQ(request.calls, ConstraintRequest::Calls::kEither);
  EXPECT_EQ(request.text_param, "format");
  ASSERT_EQ(request.source.instead.size(), 1u);
  EXPECT_EQ(request.source.instead[0], text.source);
  // A grammar that is kept is found by all of it.
  grammar::Source other = request.source;
  EXPECT_EQ(other.key(), request.source.key());
  other.instead[0].strict = false;
  EXPECT_NE(other.key(), request.source.key());
  other = request.source;
  other.lead = "a";
  EXPECT_NE(other.key(), request.source.key());
  other.instead.clear();
  EXPECT_NE(other.key(), request.source.key());
}

}  // namespace
}  // namespace ingot
