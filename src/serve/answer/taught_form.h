// Which form of calls a chat template teaches its model, found by having it write one.
#pragma once

#include "grammar/call_form.h"
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

}  // namespace ingot
