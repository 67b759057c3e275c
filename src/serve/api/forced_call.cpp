#include "serve/api/forced_call.h"

#include <fmt/format.h>

#include <algorithm>

namespace ingot {
namespace {

// The tools' own schemas are below this, by name: references within one are made to begin there.
constexpr std::string_view kTools = "#/$defs/";

// Values under these are data: what looks like a reference there is none.
bool holds_data(std::string_view key) {
  return key == "const" || key == "enum" || key == "default" || key == "examples";
}

void move_references(Json& schema, const std::string& root) {
  if (schema.is_array()) {
    for (Json& item : schema.get_array()) move_references(item, root);
  }
  if (!schema.is_object()) return;
  for (auto& member : schema.get_object()) {
    const std::string_view key(member.key().data(), member.key().size());
    Json& value = member.value();
    if (key == "$ref" && value.is_string() && value.get_string().starts_with("#")) {
      const std::string target(value.get_string().c_str() + 1, value.get_string().size() - 1);
      // A name that the schema itself gives a part stays as it is.
      if (target.empty() || target.starts_with('/')) value = root + target;
    } else if (!holds_data(key)) {
      move_references(value, root);
    }
  }
}

// {"name": …, "arguments": {…}} of one tool.
JsonObject call_schema(const std::string& name, const char* arguments, const std::string& root) {
  const JsonArray both{JsonObject{{"type", "object"}}, JsonObject{{"$ref", root}}};
  return {{"type", "object"},
          {"properties", JsonObject{{"name", JsonObject{{"const", name}}}, {arguments, JsonObject{{"allOf", both}}}}},
          {"required", JsonArray{"name", arguments}},
          {"additionalProperties", false}};
}

}  // namespace

ConstraintRequest forced_call(const ToolsOfRequest& tools, ToolForm form) {
  const char* arguments = form == ToolForm::kLlama3 ? "parameters" : "arguments";
  JsonArray calls;
  JsonObject schemas;
  for (size_t i = 0; i < tools.names.size(); ++i) {
    if (std::ranges::find(tools.forced, tools.names[i]) == tools.forced.end()) continue;
    const std::string root = fmt::format("{}{}", kTools, tools.names[i]);
    Json parameters = tools.tools[i].at("function").at("parameters");
    move_references(parameters, root);
    schemas[tools.names[i]] = std::move(parameters);
    calls.push_back(call_schema(tools.names[i], arguments, root));
  }
  JsonObject schema{{"anyOf", std::move(calls)}};
  ConstraintRequest request{.param = "tools", .source = {}, .call = true};
  if (form == ToolForm::kMistral) {
    schema = {{"type", "array"}, {"items", std::move(schema)}, {"minItems", 1}};
    if (tools.one_call) schema["maxItems"] = 1;
    request.lead = "[TOOL_CALLS]";
  } else if (form == ToolForm::kHermes) {
    request.lead = "<tool_call>\n";
    request.tail = "\n</tool_call>";
  }
  schema["$defs"] = std::move(schemas);
  request.source = {
      .language = grammar::Language::kJsonSchema, .text = to_json(schema), .choices = {}, .strict = tools.strict};
  return request;
}

std::string place_in_tools(std::string_view place) {
  if (!place.starts_with(kTools)) return std::string(place);
  place.remove_prefix(kTools.size());
  const size_t end = std::min(place.find('/'), place.size());
  return fmt::format("#{} of the parameters of {}", place.substr(end), place.substr(0, end));
}

}  // namespace ingot
