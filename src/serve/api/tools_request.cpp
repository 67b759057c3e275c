#include "serve/api/tools_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/fields.h"

namespace ingot {
namespace {

bool is_absent(const Json* value) { return !value || value->is_null(); }

const JsonObject& object_at(const Json& value, std::string_view path) {
  if (!value.is_object())
    throw bad_field(path, fmt::format("{} must be an object, not {}", path, json_type_name(value)));
  return value.get_object();
}

std::string string_at(const JsonObject& object, std::string_view key, const std::string& path) {
  const Json* value = find(object, key);
  const std::string where = fmt::format("{}.{}", path, key);
  if (is_absent(value)) throw bad_field(where, where + " is required");
  if (!value->is_string())
    throw bad_field(where, fmt::format("{} must be a string, not {}", where, json_type_name(*value)));
  return std::string(value->get_string());
}

std::string name_at(const JsonObject& function, const std::string& path) {
  std::string name = string_at(function, "name", path);
  const bool fits = !name.empty() && name.size() <= kMaxToolName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!fits) {
    throw bad_field(
        path + ".name",
        fmt::format("{}.name must have 1 to {} letters, digits, underscores, hyphens or points", path, kMaxToolName));
  }
  return name;
}

// What templates read of a function. Where the caller left something out, they are given what they can print.
Json function_for_template(const std::string& name, const JsonObject& given, std::string_view schema_key,
                           const std::string& path) {
  JsonObject function;
  function["name"] = name;
  const Json* description = find(given, "description");
  if (!is_absent(description)) function["description"] = string_at(given, "description", path);
  if (!function.contains("description")) function["description"] = "";
  const Json* schema = find(given, schema_key);
  if (is_absent(schema)) {
    function["parameters"] = JsonObject{{"type", "object"}, {"properties", JsonObject()}};
  } else {
    function["parameters"] = object_at(*schema, fmt::format("{}.{}", path, schema_key));
  }
  return JsonObject{{"type", "function"}, {"function", std::move(function)}};
}

using Value = ToolSignature::Value;

Value type_kind(std::string_view name) {
  if (name == "string") return Value::kText;
  if (name == "null") return Value::kNull;
  if (name == "boolean") return Value::kBool;
  if (name == "integer" || name == "number") return Value::kNumber;
  if (name == "array") return Value::kArray;
  return name == "object" ? Value::kObject : Value::kAny;
}

Value kind_of(const Json& value) {
  if (value.is_string()) return Value::kText;
  if (value.is_null()) return Value::kNull;
  if (value.is_bool()) return Value::kBool;
  if (value.is_array()) return Value::kArray;
  return value.is_object() ? Value::kObject : Value::kNumber;
}

// Of which types values of schemas may be. One for all tools of a request: references can lead to the same lists again
// and again, K lists of K of them to K^5 in a body of a few KB, so all of them together may look at kMost things. What
// is left then may be of any type, as where a schema says none.
class ValueKinds {
 public:
  // How the values of the tool's arguments are written where a form writes text bare.
  ToolSignature signature_of(const std::string& name, const Json& tool) {
    ToolSignature signature{.name = name, .keys = {}};
    const Json& parameters = tool.get_object().at("function").get_object().at("parameters");
    const Json* properties = find(parameters.get_object(), "properties");
    if (!properties || !properties->is_object()) return signature;
    for (const auto& property : properties->get_object()) {
      signature.keys.emplace_back(std::string(property.key()), kind(parameters, property.value(), 0));
    }
    return signature;
  }

 private:
  static constexpr int kMost = 100'000;  // milliseconds; the schemas of a coding agent's tools take some hundreds
  static constexpr int kMaxDepth = 8;

  bool take() {
    if (left_ > 0) --left_;
    return left_ > 0;
  }

  // The part of the schema that a local reference names; none where there is no such.
  const Json* refer(const Json& root, std::string_view pointer) {
    const Json* at = &root;
    if (!pointer.starts_with('#')) return nullptr;
    pointer.remove_prefix(1);
    while (at && !pointer.empty()) {
      if (!pointer.starts_with('/') || !take()) return nullptr;
      const size_t end = std::min(pointer.find('/', 1), pointer.size());
      at = at->is_object() ? find(at->get_object(), pointer.substr(1, end - 1)) : nullptr;
      pointer.remove_prefix(end);
    }
    return at;
  }

  Value any_of(const Json& list, const auto& of) {
    Value any = Value::kNone;
    for (const Json& one : list.get_array()) {
      if (!take()) return Value::kAny;
      any = any | of(one);
    }
    return any;
  }

  Value kind(const Json& root, const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMaxDepth || !take()) return Value::kAny;
    const JsonObject& object = schema.get_object();
    Value found = of_own_fields(object);
    if (const Json* to = find(object, "$ref"); to && to->is_string()) {
      if (const Json* part = refer(root, to->get_string())) found = found & kind(root, *part, depth + 1);
    }
    const auto of = [&](const Json& one) { return kind(root, one, depth + 1); };
    for (const char* key : {"anyOf", "oneOf"}) {
      const Json* list = find(object, key);
      if (list && list->is_array() && !list->get_array().empty()) found = found & any_of(*list, of);
    }
    if (const Json* list = find(object, "allOf"); list && list->is_array()) {
      for (const Json& one : list->get_array()) {
        if (!take()) break;
        found = found & of(one);
      }
    }
    return found == Value::kNone ? Value::kAny : found;
  }

  Value of_own_fields(const JsonObject& object) {
    Value found = Value::kAny;
    if (const Json* type = find(object, "type")) {
      const auto of = [](const Json& one) { return one.is_string() ? type_kind(one.get_string()) : Value::kAny; };
      if (type->is_string()) found = found & of(*type);
      if (type->is_array()) found = found & any_of(*type, of);
    }
    if (const Json* list = find(object, "enum"); list && list->is_array()) found = found & any_of(*list, kind_of);
    if (const Json* value = find(object, "const")) found = found & kind_of(*value);
    return found;
  }

  int left_ = kMost;
};

// The list, or nothing where it is absent or empty.
const JsonArray* tools_of(const JsonObject& body) {
  const Json* value = find(body, "tools");
  if (is_absent(value)) return nullptr;
  if (!value->is_array())
    throw bad_field("tools", fmt::format("tools must be an array, not {}", json_type_name(*value)));
  if (value->get_array().size() > kMaxTools) {
    throw bad_field("tools",
                    fmt::format("tools has {} items, at most {} are allowed", value->get_array().size(), kMaxTools));
  }
  return value->get_array().empty() ? nullptr : &value->get_array();
}

void check_form(const TaughtForm& form) {
  if (!form.has_tools) throw bad_field("tools", "tools have no place in the model's chat template");
  if (!form.calls) {
    std::string known;
    for (const CallForm* each : call_forms()) known += fmt::format("{}{}", known.empty() ? "" : ", ", each->name);
    throw bad_field("tools",
                    fmt::format("tools would be called in a form that is not supported; these are: {}", known));
  }
}

void add_name(ToolsOfRequest& request, std::string name, const std::string& path) {
  if (std::ranges::find(request.names, name) != request.names.end()) {
    throw bad_field(path + ".name", fmt::format("{}.name is '{}', and so is another tool's", path, name));
  }
  request.names.push_back(std::move(name));
}

struct ToolChoice {
  std::string mode = "auto";          // "none", "auto" or "required"
  std::vector<std::string> names;     // of these alone; empty: of all
  std::string param = "tool_choice";  // that has the names
  bool offers_all = true;             // names that may not be called are still told to the model
};

// The name of {"type": "function", "function": {"name": …}}, or of the same with "custom".
std::string named_tool(const JsonObject& object, const std::string& path) {
  const Json* type = find(object, "type");
  const std::string key = type && type->is_string() && type->get_string() == "custom" ? "custom" : "function";
  const std::string where = fmt::format("{}.{}", path, key);
  const Json* named = find(object, key);
  if (is_absent(named)) throw bad_field(where, where + " is required");
  return name_at(object_at(*named, where), where);
}

ToolChoice allowed_tools(const JsonObject& object) {
  const Json* value = find(object, "allowed_tools");
  const std::string path = "tool_choice.allowed_tools";
  if (is_absent(value)) throw bad_field(path, path + " is required");
  const JsonObject& allowed = object_at(*value, path);
  ToolChoice choice{
      .mode = string_at(allowed, "mode", path), .names = {}, .param = path + ".tools", .offers_all = false};
  if (choice.mode != "auto" && choice.mode != "required") {
    throw bad_field(path + ".mode", path + ".mode must be 'auto' or 'required'");
  }
  const Json* tools = find(allowed, "tools");
  if (is_absent(tools) || !tools->is_array() || tools->get_array().empty()) {
    throw bad_field(choice.param, choice.param + " must be a list of tools");
  }
  for (size_t i = 0; i < tools->get_array().size(); ++i) {
    const std::string at = fmt::format("{}[{}]", choice.param, i);
    choice.names.push_back(named_tool(object_at(tools->get_array()[i], at), at));
  }
  return choice;
}

ToolChoice openai_choice(const JsonObject& body) {
  const Json* value = find(body, "tool_choice");
  if (is_absent(value)) return {};
  if (value->is_object()) {
    const JsonObject& object = value->get_object();
    const std::string type = string_at(object, "type", "tool_choice");
    if (type == "allowed_tools") return allowed_tools(object);
    if (type == "function" || type == "custom") {
      return {.mode = "required",
              .names = {named_tool(object, "tool_choice")},
              .param = fmt::format("tool_choice.{}.name", type)};
    }
    throw bad_field("tool_choice.type", "tool_choice.type must be 'function', 'custom' or 'allowed_tools'");
  }
  const std::string mode = value->is_string() ? std::string(value->get_string()) : "";
  if (mode != "auto" && mode != "none" && mode != "required") {
    throw bad_field("tool_choice", "tool_choice must be 'none', 'auto', 'required' or an object that names tools");
  }
  return {.mode = mode, .names = {}};
}

// What the choice leaves of the tools.
void apply_choice(const ToolChoice& choice, ToolsOfRequest& request) {
  for (const std::string& name : choice.names) {
    if (std::ranges::find(request.names, name) != request.names.end()) continue;
    throw bad_field(choice.param, fmt::format("{} names '{}', which is none of the tools", choice.param, name));
  }
  const auto chosen = [&](const std::string& name) {
    return choice.names.empty() || std::ranges::find(choice.names, name) != choice.names.end();
  };
  for (size_t i = request.names.size(); i-- > 0;) {
    if (choice.offers_all || chosen(request.names[i])) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    request.names.erase(request.names.begin() + at);
    request.tools.erase(request.tools.begin() + at);
    request.signatures.erase(request.signatures.begin() + at);
    request.strict.erase(request.strict.begin() + at);
  }
  if (choice.mode != "required") return;
  std::ranges::copy_if(request.names, std::back_inserter(request.forced), chosen);
}

bool flag(const JsonObject& object, std::string_view key, const std::string& path, bool fallback) {
  const Json* value = find(object, key);
  if (is_absent(value)) return fallback;
  if (!value->is_bool())
    throw bad_field(path, fmt::format("{} must be true or false, not {}", path, json_type_name(*value)));
  return value->get_bool();
}

// "any" and "tool" force a call; request.one_call is set.
ToolChoice anthropic_choice(const JsonObject& body, ToolsOfRequest& request) {
  const Json* value = find(body, "tool_choice");
  if (is_absent(value)) return {};
  const JsonObject& object = object_at(*value, "tool_choice");
  const std::string type = string_at(object, "type", "tool_choice");
  request.one_call = flag(object, "disable_parallel_tool_use", "tool_choice.disable_parallel_tool_use", false);
  if (type == "auto" || type == "none") return {.mode = type, .names = {}};
  if (type == "any") return {.mode = "required", .names = {}};
  if (type == "tool") {
    return {.mode = "required", .names = {name_at(object, "tool_choice")}, .param = "tool_choice.name"};
  }
  throw bad_field("tool_choice.type", "tool_choice.type must be 'auto', 'any', 'tool' or 'none'");
}

// What the arguments of all calls of a request may have together: as much as its body, which they are a part of.
struct Room {
  size_t values = kMaxBodyValues, members = kMaxBodyMembers;

  // False where there is less left than `value` has.
  bool take(const Json& value) {
    if (values == 0) return false;
    --values;
    if (value.is_array()) {
      return std::ranges::all_of(value.get_array(), [this](const Json& item) { return take(item); });
    }
    if (!value.is_object()) return true;
    return std::ranges::all_of(value.get_object(), [this](const auto& member) {
      if (members == 0) return false;
      --members;
      return take(member.value());
    });
  }
};

// The object that the text spells. What the model wrote is not ours to judge: none where it spells something else.
std::optional<Json> read_arguments(const Json& text, const std::string& path, Room& room) {
  constexpr size_t kOutside = 6;  // body, messages, message, tool_calls, call, function
  const JsonLimits limits{.max_depth = kMaxBodyDepth - kOutside,
                          .max_object_members = kMaxObjectMembers,
                          .max_values = kMaxBodyValues,
                          .max_members = kMaxBodyMembers};
  const std::string_view spelled(text.get_string().data(), text.get_string().size());
  if (spelled.empty()) return JsonObject();
  const auto too_much = [&] {
    return bad_field(path, fmt::format("{} goes beyond what a body may hold: {} values, {} members and {} levels", path,
                                       kMaxBodyValues, kMaxBodyMembers, kMaxBodyDepth));
  };
  try {
    Json value = parse_json(spelled, "arguments", limits);
    if (!room.take(value)) throw too_much();
    if (value.is_object()) return value;
  } catch (const JsonLimitError&) {
    throw too_much();
  } catch (const Error&) {
    // It is no JSON.
  }
  return std::nullopt;
}

// {"type": "custom", "custom": {"name", "description", "format": {"type": "text"} or {"type": "grammar", "grammar":
// {"syntax": "lark" or "regex", "definition"}}}}: to the template a function that takes one text.
void add_custom(const JsonObject& tool, const std::string& path, ValueKinds& kinds, ToolsOfRequest& request) {
  const std::string where = path + ".custom";
  const Json* value = find(tool, "custom");
  if (is_absent(value)) throw bad_field(where, where + " is required");
  const JsonObject& custom = object_at(*value, where);
  std::string name = name_at(custom, where);
  JsonObject held;
  std::string told;
  if (const Json* format = find(custom, "format"); !is_absent(format)) {
    const JsonObject& object = object_at(*format, where + ".format");
    if (string_at(object, "type", where + ".format") == "grammar") {
      const std::string at = where + ".format.grammar";
      const Json* grammar = find(object, "grammar");
      if (is_absent(grammar)) throw bad_field(at, at + " is required");
      const JsonObject& source = object_at(*grammar, at);
      const std::string syntax = string_at(source, "syntax", at);
      if (syntax != "lark" && syntax != "regex")
        throw bad_field(at + ".syntax", at + ".syntax must be 'lark' or 'regex'");
      held[syntax] = string_at(source, "definition", at);
      told = fmt::format("Text of this {}: {}", syntax, std::string_view(held[syntax].get_string()));
    }
  }
  JsonObject text{{"type", "string"}};
  if (!told.empty()) text["description"] = told;
  JsonObject function = custom;
  function["parameters"] = JsonObject{{"type", "object"},
                                      {"properties", JsonObject{{kCustomKey, std::move(text)}}},
                                      {"required", JsonArray{Json(kCustomKey)}}};
  request.tools.push_back(function_for_template(name, function, "parameters", where));
  request.signatures.push_back(kinds.signature_of(name, request.tools.back()));
  request.strict.push_back(true);
  request.custom[name] = std::move(held);
  add_name(request, std::move(name), where);
}

}  // namespace

ToolsOfRequest read_openai_tools(const JsonObject& body, const TaughtForm& form) {
  ToolsOfRequest request;
  request.one_call = !flag(body, "parallel_tool_calls", "parallel_tool_calls", true);
  const ToolChoice choice = openai_choice(body);
  const JsonArray* tools = tools_of(body);
  if (!tools && (choice.mode == "required" || !choice.names.empty())) {
    throw bad_field("tool_choice", "tool_choice asks for a call, and there are no tools");
  }
  if (!tools) return request;
  ValueKinds kinds;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const JsonObject& tool = object_at((*tools)[i], path);
    const std::string type = string_at(tool, "type", path);
    if (type == "custom") {
      add_custom(tool, path, kinds, request);
      continue;
    }
    if (type != "function") {
      throw bad_field(path + ".type", path + ".type must be 'function' or 'custom': other tools are not supported");
    }
    const Json* value = find(tool, "function");
    if (is_absent(value)) throw bad_field(path + ".function", path + ".function is required");
    const JsonObject& function = object_at(*value, path + ".function");
    std::string name = name_at(function, path + ".function");
    request.strict.push_back(flag(function, "strict", path + ".function.strict", false));
    request.tools.push_back(function_for_template(name, function, "parameters", path + ".function"));
    request.signatures.push_back(kinds.signature_of(name, request.tools.back()));
    add_name(request, std::move(name), path + ".function");
  }
  if (choice.mode == "none") return {.tools = {}, .names = {}, .signatures = {}, .one_call = request.one_call};
  apply_choice(choice, request);
  check_form(form);
  return request;
}

ToolsOfRequest read_anthropic_tools(const JsonObject& body, const TaughtForm& form) {
  ToolsOfRequest request;
  const ToolChoice choice = anthropic_choice(body, request);
  const JsonArray* tools = tools_of(body);
  if (!tools && choice.mode == "required") {
    throw bad_field("tool_choice", "tool_choice asks for a call, and there are no tools");
  }
  if (!tools) return request;
  ValueKinds kinds;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const JsonObject& tool = object_at((*tools)[i], path);
    const Json* type = find(tool, "type");
    if (!is_absent(type) && string_at(tool, "type", path) != "custom") {
      throw bad_field(path + ".type", path + ".type must be 'custom': tools that run on the server are not supported");
    }
    std::string name = name_at(tool, path);
    request.strict.push_back(flag(tool, "strict", path + ".strict", false));
    request.tools.push_back(function_for_template(name, tool, "input_schema", path));
    request.signatures.push_back(kinds.signature_of(name, request.tools.back()));
    add_name(request, std::move(name), path);
  }
  if (choice.mode == "none") return {.tools = {}, .names = {}, .signatures = {}, .one_call = request.one_call};
  apply_choice(choice, request);
  check_form(form);
  return request;
}

void prepare_calls(JsonArray& messages, const std::function<std::string(size_t, size_t)>& path) {
  Room room;
  for (size_t m = 0; m < messages.size(); ++m) {
    Json* calls = messages[m].is_object() ? messages[m].get_object().if_contains("tool_calls") : nullptr;
    if (!calls || !calls->is_array()) continue;
    for (size_t c = 0; c < calls->get_array().size(); ++c) {
      Json& call = calls->get_array()[c];
      Json* function = call.is_object() ? call.get_object().if_contains("function") : nullptr;
      Json* arguments = function && function->is_object() ? function->get_object().if_contains("arguments") : nullptr;
      if (!arguments) continue;
      if (arguments->is_null()) *arguments = JsonObject();
      if (!arguments->is_string()) continue;
      const std::string where = path ? path(m, c) : fmt::format("messages[{}].tool_calls[{}].function.arguments", m, c);
      std::optional<Json> value = read_arguments(*arguments, where, room);
      if (value) *arguments = *std::move(value);
    }
  }
}

}  // namespace ingot
