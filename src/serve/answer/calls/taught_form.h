// Which form of calls a chat template teaches its model, found by having it write one.
#pragma once

#include <optional>

#include "grammar/call_form.h"
#include "serve/answer/reasoning.h"
#include "text/chat_template.h"
#include "text/prompt.h"

namespace ingot {

struct TaughtForm {
  const CallForm* calls = nullptr;  // null: none, or a form that is not known here
  bool has_tools = false;           // the template has a place for tools
};

// The template renders an answer with a call, and the form that reads the same call from it is the one. A template that
// does not render calls, or whose calls have no mark, is known by the texts in its source.
TaughtForm taught_form(const ChatTemplate& chat, const TemplateSource& source);

// What encloses the reasoning of a template's model: <think> where it has that, else what the template writes around
// the reasoning of an answer, or marks that are known. Nothing: it has none.
std::optional<ReasoningMarks> taught_reasoning(const ChatTemplate& chat, const TemplateSource& source);

}  // namespace ingot
