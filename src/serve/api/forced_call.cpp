#include "serve/api/forced_call.h"

#include <algorithm>
#include <utility>

namespace ingot {
namespace {

ConstraintRequest calls(const ToolsOfRequest& tools, const CallForm& form, bool required) {
  JsonArray list;
  for (size_t i = 0; i < tools.names.size(); ++i) {
    const std::string& name = tools.names[i];
    if (required && std::ranges::find(tools.forced, name) == tools.forced.end()) continue;
    JsonObject tool{{"name", name}};
    if (const auto custom = tools.custom.find(name); custom != tools.custom.end()) {
      tool["text"] = custom->second;
    } else {
      tool["schema"] = tools.tools[i].at("function").at("parameters");
      tool["strict"] = i < tools.strict.size() && tools.strict[i];
    }
    list.push_back(std::move(tool));
  }
  const JsonObject text{
      {"form", form.name}, {"required", required}, {"one", tools.one_call}, {"tools", std::move(list)}};
  return {.param = "tools",
          .source = {.language = grammar::Language::kCalls, .text = to_json(text), .choices = {}},
          .calls = required ? ConstraintRequest::Calls::kForced : ConstraintRequest::Calls::kOffered};
}

}  // namespace

ConstraintRequest forced_call(const ToolsOfRequest& tools, const CallForm& form) { return calls(tools, form, true); }

ConstraintRequest offered_calls(const ToolsOfRequest& tools, const CallForm& form) { return calls(tools, form, false); }

ConstraintRequest calls_or(ConstraintRequest text, const ToolsOfRequest& tools, const CallForm& form) {
  ConstraintRequest request = calls(tools, form, false);
  request.calls = ConstraintRequest::Calls::kEither;
  request.text_param = std::move(text.param);
  request.source.instead.push_back(std::move(text.source));
  return request;
}

}  // namespace ingot
