#include "serve/answer/taught_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "serve/answer/tool_calls.h"

namespace ingot {
namespace {

constexpr std::string_view kName = "get_weather";

JsonObject arguments() { return {{"city", "Oslo \"x\""}, {"days", 3}}; }

JsonArray tools() {
  const JsonObject properties{{"city", {{"type", "string"}, {"description", "c"}}},
                              {"days", {{"type", "integer"}, {"description", "d"}}}};
  return {{{"type", "function"},
           {"function",
            {{"name", kName},
             {"description", "w"},
             {"parameters", {{"type", "object"}, {"properties", properties}, {"required", {"city"}}}}}}}};
}

// What the template adds for an answer that is this call; empty where it cannot.
std::string rendered_call(const ChatTemplate& chat, const TemplateSource& source) {
  const JsonObject user{{"role", "user"}, {"content", "Hi"}};
  const JsonObject call{
      {"id", "abcdefgh1"}, {"type", "function"}, {"function", {{"name", kName}, {"arguments", arguments()}}}};
  const JsonObject answer{{"role", "assistant"}, {"content", ""}, {"tool_calls", JsonArray{call}}};
  JsonObject given{{"messages", JsonArray{user}}, {"tools", tools()}, {"add_generation_prompt", false}};
  try {
    const std::string before = chat.render(template_variables(given, source));
    given["messages"] = JsonArray{user, answer};
    const std::string whole = chat.render(template_variables(given, source));
    const auto differs = std::ranges::mismatch(before, whole);
    return std::string(differs.in2, whole.end());
  } catch (const Error&) {
    return {};
  }
}

bool reads_the_call(const CallForm& form, const std::string& text) {
  using Value = ToolSignature::Value;
  const std::vector<std::string> names = {std::string(kName)};
  const std::vector<ToolSignature> signatures = {{names[0], {{"city", Value::kText}, {"days", Value::kJson}}}};
  ToolCalls calls(&form, names, signatures, 0, ToolCalls::Read::kThisForm);
  std::vector<AnswerPart> parts;
  calls.push(text, parts);
  if (calls.n_calls() != 1 || calls.n_ended() != 1) return false;
  std::string spelled;
  for (const AnswerPart& part : parts) {
    if (part.kind == AnswerPart::Kind::kCallBegin && part.text != kName) return false;
    if (part.kind == AnswerPart::Kind::kCallArguments) spelled += part.text;
  }
  try {
    return parse_json(spelled, "arguments") == Json(arguments());
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TaughtForm taught_form(const ChatTemplate& chat, const TemplateSource& source) {
  TaughtForm taught{.calls = call_form_of(chat.source()), .has_tools = has_tools(chat.source())};
  if (!taught.has_tools) return taught;
  const std::string text = rendered_call(chat, source);
  if (text.empty() || (taught.calls && reads_the_call(*taught.calls, text))) return taught;
  const auto found =
      std::ranges::find_if(call_forms(), [&](const CallForm* form) { return reads_the_call(*form, text); });
  if (found != call_forms().end()) taught.calls = *found;
  return taught;
}

}  // namespace ingot
