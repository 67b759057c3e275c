// <|tool_call_start|>[name(key='value', …), …]<|tool_call_end|>: LFM2.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm lfm2[] = {{
    .name = "lfm2",
    .needs = {"<|tool_call_start|>", "<|tool_call_end|>"},
    .body = CallForm::Body::kPython,
    .open = "<|tool_call_start|>[",
    .close = "]<|tool_call_end|>",
    .call_close = ")",
    .separator = ", ",
    .name_close = "(",
}};

}  // namespace ingot::forms
