// <invoke name="…"><parameter name="key">value</parameter></invoke> between two marks: MiniMax M2, and forms alike.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm minimax[] = {
    {.name = "minimax",
     .needs = {"<minimax:tool_call>", "<invoke name=", "<parameter name="},
     .body = CallForm::Body::kParameters,
     .open = "<minimax:tool_call>\n",
     .close = "\n</minimax:tool_call>",
     .call_open = "<invoke name=\"",
     .call_close = "</invoke>",
     .separator = "\n",
     .name_close = "\">\n",
     .key_open = "<parameter name=\"",
     .key_close = "\">",
     .value_close = "</parameter>\n"},
    {.name = "minicpm5",
     .needs = {"<function name=", "<param name="},
     .body = CallForm::Body::kParameters,
     .call_open = "<function name=\"",
     .call_close = "</function>",
     .separator = "\n",
     .name_close = "\">",
     .key_open = "<param name=\"",
     .key_close = "\">",
     .value_close = "</param>",
     .cdata = true},
};

}  // namespace ingot::forms
