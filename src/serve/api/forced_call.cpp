#include "serve/api/forced_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/answer/call_piece.h"
#include "serve/api/api_error.h"
#include "serve/api/fields.h"

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

// The arguments of a tool, whose schema is at `root`.
JsonObject arguments_schema(const std::string& root) {
  return {{"allOf", JsonArray{JsonObject{{"type", "object"}}, JsonObject{{"$ref", root}}}}};
}

// {"name": …, "arguments": {…}} of one tool.
JsonObject call_schema(const std::string& name, const CallForm& form, const std::string& root) {
  return {{"type", "object"},
          {"properties",
           JsonObject{{form.name_key, JsonObject{{"const", name}}}, {form.arguments_key, arguments_schema(root)}}},
          {"required", JsonArray{Json(form.name_key), Json(form.arguments_key)}},
          {"additionalProperties", false}};
}

// The calls are a list of JSON between the form's marks.
bool is_list(const CallForm& form) {
  return form.body == CallForm::Body::kObject && without_space(form.open).ends_with('[') &&
         without_space(form.close).starts_with(']');
}

// Marks around the JSON: without the brackets of a list, which are its schema's.
void set_marks(const CallForm& form, ConstraintRequest& request) {
  const std::string_view open = without_space(form.open), close = without_space(form.close);
  if (is_list(form)) {
    request.lead = without_space(open.substr(0, open.size() - 1));
    request.tail = close.substr(1);
  } else {
    request.lead = fmt::format("{}{}", form.open, form.call_open);
    request.tail = fmt::format("{}{}", form.call_close, form.close);
  }
}

void check_forcible(const ToolsOfRequest& tools, const CallForm& form) {
  using Body = CallForm::Body;
  const bool json = form.body == Body::kObject || (form.body == Body::kJson && form.id_close.empty());
  if (!json) {
    throw bad_field("tool_choice",
                    fmt::format("tool_choice cannot force a call in the form of this model ({})", form.name));
  }
  if (form.body == Body::kJson && tools.forced.size() > 1) {
    throw bad_field("tool_choice",
                    fmt::format("tool_choice must name one tool: in the form of this model ({}) a call of one of "
                                "several cannot be forced",
                                form.name));
  }
}

}  // namespace

ConstraintRequest forced_call(const ToolsOfRequest& tools, const CallForm& form) {
  check_forcible(tools, form);
  ConstraintRequest request{.param = "tools", .source = {}, .call = true};
  JsonArray calls;
  JsonObject schemas;
  for (size_t i = 0; i < tools.names.size(); ++i) {
    if (std::ranges::find(tools.forced, tools.names[i]) == tools.forced.end()) continue;
    const std::string root = fmt::format("{}{}", kTools, tools.names[i]);
    Json parameters = tools.tools[i].at("function").at("parameters");
    move_references(parameters, root);
    schemas[tools.names[i]] = std::move(parameters);
    const bool named = form.body == CallForm::Body::kJson;
    calls.push_back(named ? arguments_schema(root) : call_schema(tools.names[i], form, root));
  }
  JsonObject schema{{"anyOf", std::move(calls)}};
  set_marks(form, request);
  if (is_list(form)) {
    schema = {{"type", "array"}, {"items", std::move(schema)}, {"minItems", 1}};
    if (tools.one_call) schema["maxItems"] = 1;
  } else if (form.body == CallForm::Body::kJson) {
    const std::string_view index = form.id_open == ":" ? ":0" : "";  // functions.name:0
    request.lead += fmt::format("{}{}{}{}", form.name_prefix, tools.forced.front(), index, form.name_close);
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
