// <tool_call><function=name><parameter=key>value</parameter></function></tool_call>: Qwen3-Coder, Step 3.5.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm qwen_coder[] = {{
    .name = "qwen-coder",
    .needs = {"<tool_call>", "<function=", "<parameter="},
    .body = CallForm::Body::kParameters,
    .call_open = "<tool_call>\n<function=",
    .call_close = "</function>\n</tool_call>",
    .separator = "\n",
    .name_close = ">\n",
    .key_open = "<parameter=",
    .key_close = ">\n",
    .value_close = "\n</parameter>\n",
}};

}  // namespace ingot::forms
