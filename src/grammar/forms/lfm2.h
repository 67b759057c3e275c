// <|tool_call_start|>[name(key='value', …), …]<|tool_call_end|>: LFM2.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm lfm2[] = {
    {.name = "lfm2",
     .needs = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .body = CallForm::Body::kPython,
     .open = "<|tool_call_start|>[",
     .close = "]<|tool_call_end|>",
     .call_close = ")",
     .separator = ", ",
     .name_close = "("},
    {.name = "lfm2.5",  // the template tells of tools, and has no place for calls
     .needs = {"\"List of tools: [\"", "<|im_start|>"},
     .excludes = {"<|tool_call_start|>", "<tool_call>"},
     .body = CallForm::Body::kPython,
     .open = "<|tool_call_start|>[",
     .close = "]<|tool_call_end|>",
     .call_close = ")",
     .separator = ", ",
     .name_close = "("},
};

}  // namespace ingot::forms
