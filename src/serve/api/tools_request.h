// The tools of a request: from OpenAI's and Anthropic's shape to what chat templates take.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "files/json.h"
#include "serve/answer/calls/parameter_reader.h"
#include "serve/answer/calls/taught_form.h"

namespace ingot {

inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolName = 64;
inline constexpr std::string_view kCustomKey = "input";

struct ToolsOfRequest {
  // For the template: [{"type": "function", "function": {"name", "description", "parameters"}}]; empty: none are
  // offered, and no call is searched for.
  JsonArray tools;
  std::vector<std::string> names;
  std::vector<ToolSignature> signatures;  // of the same tools
  bool one_call = false;                  // parallel calls are not wanted
  std::vector<std::string> forced = {};   // one of these must be called; empty: none must
  std::vector<bool> strict = {};          // of each of the tools
  // Tools that take a text instead of arguments, by name: {}, {"regex": …} or {"lark": …} says which. Templates are
  // told of a function with the one parameter kCustomKey.
  std::map<std::string, JsonObject> custom = {};
};

// "tools", "tool_choice" and "parallel_tool_calls" of a body of /v1/chat/completions. Throws ApiError 400 that names
// the field: a tool that is no function, a choice that names none of them, or tools for a model of another form.
ToolsOfRequest read_openai_tools(const JsonObject& body, const TaughtForm& form);
// "tools" and "tool_choice" of a body of /v1/messages.
ToolsOfRequest read_anthropic_tools(const JsonObject& body, const TaughtForm& form);

// Calls in earlier messages as templates take them: arguments that are text become the object that the text spells. The
// limits of a body hold for what all of them spell: beyond is ApiError 400.
// REQUIRES: messages are objects in OpenAI's shape. `path`: the field of a message's call, for errors; none: as
// /v1/chat/completions has it.
void prepare_calls(JsonArray& messages, const std::function<std::string(size_t message, size_t call)>& path = {});

}  // namespace ingot
