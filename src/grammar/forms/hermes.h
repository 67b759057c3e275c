// <tool_call>{"name": …, "arguments": {…}}</tool_call>: Hermes, Qwen, Granite 4, MiMo, Bielik, Reka.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm hermes[] = {{
    .name = "hermes",
    .needs = {"<tool_call>", "\"arguments\""},
    .excludes = {"<function=", "<arg_key>", "<invoke"},
    .call_open = "<tool_call>\n",
    .call_close = "\n</tool_call>",
    .separator = "\n",
}};

}  // namespace ingot::forms
