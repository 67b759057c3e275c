// GigaChat: one call, after a mark or as a message of its own role.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm gigachat[] = {
    {.name = "gigachat3.1",
     .needs = {"<|function_call|>", "<|role_sep|>"},
     .call_open = "<|function_call|>",
     .one_call = true},
    {.name = "gigachat3",
     .needs = {"function call<|role_sep|>"},
     .call_open = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
     .one_call = true},
};

}  // namespace ingot::forms
