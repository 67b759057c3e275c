// <atem:invoke name="…"><atem:parameter name="key">value</atem:parameter></atem:invoke>, each call a message of its own
// whose header has the name too: Muse Glimmer.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm muse[] = {{
    .name = "muse",
    .needs = {"<atem:function_calls>", "<atem:invoke name=", "<atem:parameter name="},
    .body = CallForm::Body::kParameters,
    .call_open = "<|start|>assistant to=",
    .call_close = "</atem:invoke>\n</atem:function_calls>",
    .separator = "<|eom|>",
    .id_close = "<|message|><atem:function_calls>\n<atem:invoke name=\"",
    .name_close = "\">\n",
    .key_open = "<atem:parameter name=\"",
    .key_close = "\">",
    .value_close = "</atem:parameter>\n",
    .trigger = "<atem:function_calls>\n<atem:invoke name=\"",
}};

}  // namespace ingot::forms
