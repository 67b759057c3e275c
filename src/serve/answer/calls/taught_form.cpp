#include "serve/answer/calls/taught_form.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/answer/answer_parser.h"
#include "serve/answer/calls/tool_calls.h"

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

bool reads_the_call(const CallForm& form, const std::string& text, ToolCalls::Read read = ToolCalls::Read::kThisForm) {
  using Value = ToolSignature::Value;
  const std::vector<std::string> names = {std::string(kName)};
  const std::vector<ToolSignature> signatures = {{names[0], {{"city", Value::kText}, {"days", Value::kJson}}}};
  ToolCalls calls(&form, names, signatures, 0, read);
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

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Marks that are found where the template does not show them.
constexpr std::pair<std::string_view, std::string_view> kKnownMarks[] = {
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>"},
    {"<|channel>thought", "<channel|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"◁think▷", "◁/think▷"},
};

// The last mark that begins in a text and goes to its end; the first mark that the text begins with.
std::string_view last_mark(std::string_view text) {
  text = without_space(text);
  size_t at = std::string_view::npos;
  for (const std::string_view opener : {"<", "[", "◁"}) {
    const size_t found = text.rfind(opener);
    if (found != std::string_view::npos && (at == std::string_view::npos || found > at)) at = found;
  }
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

std::string_view first_mark(std::string_view text) {
  text = without_space(text);
  constexpr std::string_view kEnd = "▷";
  if (text.starts_with("◁")) return text.substr(0, text.find(kEnd) + kEnd.size());
  return text.substr(0, mark_size(text));
}

// What the template writes around the reasoning of an answer.
std::optional<ReasoningMarks> rendered_marks(const ChatTemplate& chat, const TemplateSource& source) {
  constexpr std::string_view kThought = "q7thoughtq7", kAnswer = "q7answerq7";
  const JsonObject user{{"role", "user"}, {"content", "Hi"}};
  const JsonObject answer{{"role", "assistant"},
                          {"content", kAnswer},
                          {"reasoning_content", kThought},
                          {"reasoning", kThought},
                          {"thinking", kThought}};
  const JsonObject given{{"messages", JsonArray{user, answer}}, {"tools", nullptr}, {"add_generation_prompt", false}};
  try {
    const std::string text = chat.render(template_variables(given, source));
    const size_t thought = text.find(kThought), after = thought + kThought.size();
    const size_t said = thought == std::string::npos ? thought : text.find(kAnswer, after);
    if (said == std::string::npos) return {};
    const std::string_view whole = text;
    const std::string_view open = last_mark(whole.substr(0, thought));
    const std::string_view close = first_mark(whole.substr(after, said - after));
    if (open.size() < 3 || close.size() < 3) return {};
    return ReasoningMarks{.open = std::string(open), .close = std::string(close)};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<ReasoningMarks> taught_reasoning(const ChatTemplate& chat, const TemplateSource& source) {
  const std::string_view text = chat.source();
  if (has(text, "<|channel|>analysis<|message|>")) {
    return ReasoningMarks{.open = "<|channel|>analysis<|message|>",
                          .close = "<|end|>",
                          .channels = true,
                          .lead = "<|start|>assistant<|channel|>final<|message|>",
                          .header = "<|start|>assistant"};
  }
  if (has(text, "to=self<|message|>")) {
    return ReasoningMarks{.open = " to=self<|message|>",
                          .close = "<|eom|>",
                          .channels = true,
                          .lead = "<|start|>assistant to=user<|message|>",
                          .header = "<|start|>assistant"};
  }
  if (has_reasoning(text)) return ReasoningMarks{};
  if (std::optional<ReasoningMarks> marks = rendered_marks(chat, source)) return marks;
  for (const auto& [open, close] : kKnownMarks) {
    if (has(text, open) && has(text, close)) {
      return ReasoningMarks{.open = std::string(open), .close = std::string(close)};
    }
  }
  return {};
}

TaughtForm taught_form(const ChatTemplate& chat, const TemplateSource& source) {
  TaughtForm taught{.calls = call_form_of(chat.source()), .has_tools = has_tools(chat.source())};
  if (!taught.has_tools) return taught;
  const std::string text = rendered_call(chat, source);
  if (text.empty() || (taught.calls && reads_the_call(*taught.calls, text, ToolCalls::Read::kFamily))) return taught;
  const auto found =
      std::ranges::find_if(call_forms(), [&](const CallForm* form) { return reads_the_call(*form, text); });
  if (found != call_forms().end()) taught.calls = *found;
  return taught;
}

}  // namespace ingot
