#include "serve/responses/response_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "serve/responses/response_request.h"

namespace ingot {
namespace {

// Kinds that OpenAI runs, or that only its own models know.
bool runs_elsewhere(std::string_view type) {
  constexpr std::string_view kKinds[] = {
      "file_search", "code_interpreter", "image_generation", "mcp",      "local_shell", "shell",
      "apply_patch", "namespace",        "tool_search",      "computer", "web_search",  "programmatic_tool_calling"};
  return std::ranges::find(kKinds, type) != std::end(kKinds) || type.starts_with("web_search_") ||
         type.starts_with("computer_");
}

ApiError no_such_kind(const std::string& path) {
  return bad_field(path,
                   fmt::format("{} must be function or custom, or a tool that runs elsewhere and is left out", path));
}

ApiError elsewhere(const std::string& path, const std::string& type) {
  return bad_field(path, fmt::format("{} asks for a call of {}, which does not run here", path, type));
}

// What /v1/chat/completions has for a custom tool: there its format has the grammar one level further down.
JsonObject custom_of(const Fields& tool) {
  JsonObject custom;
  for (const char* name : {"name", "description"}) {
    if (const Json* value = tool.value(name)) custom[name] = *value;
  }
  if (const JsonObject* format = tool.object("format")) {
    const bool grammar = Fields(*format).string("type") == "grammar";
    custom["format"] = grammar ? JsonObject{{"type", "grammar"}, {"grammar", *format}} : *format;
  }
  return custom;
}

JsonObject function_of(const Fields& tool) {
  JsonObject function;
  for (const char* name : {"name", "description", "parameters", "strict"}) {
    if (const Json* value = tool.value(name)) function[name] = *value;
  }
  return function;
}

JsonObject named(const std::string& name) { return {{"type", "function"}, {"function", JsonObject{{"name", name}}}}; }

// The body as /v1/chat/completions would have it, and where its tools stood.
struct Translated {
  JsonObject body;
  std::vector<size_t> places;  // of each tool
};

void add_tools(const JsonArray& tools, Translated& chat, ResponseTools& request) {
  JsonArray functions;
  for (size_t i = 0; i < tools.size(); ++i) {
    const JsonObject& object = tools[i].get_object();
    const Fields tool(object, fmt::format("tools[{}].", i));
    const std::string type = *tool.string("type");
    if (type != "function" && type != "custom") {
      if (!runs_elsewhere(type)) throw no_such_kind(tool.path("type"));
      std::vector<std::string>& left = request.left_out;
      if (std::ranges::find(left, type) == left.end()) left.push_back(type);
      continue;
    }
    const bool custom = type == "custom";
    check_fields(object, custom ? kCustomTool : kFunctionTool, fmt::format("tools[{}].", i));
    functions.push_back(JsonObject{{"type", type}, {type, custom ? custom_of(tool) : function_of(tool)}});
    request.told.push_back(object);
    chat.places.push_back(i);
  }
  chat.body["tools"] = std::move(functions);
}

// Of {"type": "function" or "custom", "name"}; nothing where it runs elsewhere.
std::optional<std::string> named_in(const Fields& choice) {
  const std::string type = *choice.string("type");
  if (runs_elsewhere(type)) return std::nullopt;
  if (type != "function" && type != "custom") throw no_such_kind(choice.path("type"));
  std::optional<std::string> name = choice.string("name");
  if (!name) throw bad_field(choice.path("name"), fmt::format("{} is required", choice.path("name")));
  return name;
}

void add_allowed(const Fields& choice, Translated& chat) {
  const std::string mode = choice.string("mode").value_or("auto");
  const JsonArray* tools = choice.array("tools");
  if (!tools || tools->empty()) {
    throw bad_field(choice.path("tools"), fmt::format("{} is required", choice.path("tools")));
  }
  JsonArray allowed;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i].get_object(), fmt::format("{}[{}].", choice.path("tools"), i));
    if (const std::optional<std::string> name = named_in(tool)) allowed.push_back(named(*name));
  }
  if (!allowed.empty()) {
    chat.body["tool_choice"] = JsonObject{{"type", "allowed_tools"},
                                          {"allowed_tools", JsonObject{{"mode", mode}, {"tools", std::move(allowed)}}}};
    return;
  }
  if (mode == "required") {
    throw bad_field(choice.path("tools"), fmt::format("{} has no tool that runs here", choice.path("tools")));
  }
  chat.body["tool_choice"] = "none";
}

void add_choice(const Json& value, Translated& chat) {
  if (!value.is_object()) {
    chat.body["tool_choice"] = value;
    return;
  }
  const Fields choice(value.get_object(), "tool_choice.");
  const std::string type = *choice.string("type");
  if (type == "allowed_tools") return add_allowed(choice, chat);
  const std::optional<std::string> name = named_in(choice);
  if (!name) throw elsewhere(choice.path("type"), type);
  chat.body["tool_choice"] = named(*name);
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// "tools[0].function.name" is "tools[2].name" where two tools before it were left out.
void use_own_paths(std::string& text, const std::vector<size_t>& places) {
  constexpr std::string_view kTools = "tools[";
  if (text.starts_with(kTools)) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(text.data() + kTools.size(), text.data() + text.size(), index);
    if (error == std::errc() && index < places.size()) {
      text = fmt::format("{}{}{}", kTools, places[index], end);
    }
  }
  replace(text, "].function", "]");
  replace(text, "].custom", "]");
  replace(text, "].format.grammar", "].format");
  replace(text, "tool_choice.allowed_tools", "tool_choice");
  replace(text, "tool_choice.function", "tool_choice");
}

}  // namespace

ResponseTools read_response_tools(const JsonObject& body, const TaughtForm& form) {
  ResponseTools request;
  const Fields fields(body);
  Translated chat;
  if (const JsonArray* tools = fields.array("tools")) add_tools(*tools, chat, request);
  if (const Json* choice = fields.value("tool_choice")) add_choice(*choice, chat);
  if (const Json* parallel = fields.value("parallel_tool_calls")) chat.body["parallel_tool_calls"] = *parallel;
  if (chat.body.contains("tools") && chat.places.empty() && !request.left_out.empty()) {
    if (const Json* choice = find(chat.body, "tool_choice"); choice && *choice == "required") {
      throw elsewhere("tool_choice", fmt::format("{}", fmt::join(request.left_out, ", ")));
    }
  }
  try {
    request.offered = read_openai_tools(chat.body, form);
  } catch (ApiError& error) {
    use_own_paths(error.param, chat.places);
    use_own_paths(error.message, chat.places);
    throw;
  }
  return request;
}

}  // namespace ingot
