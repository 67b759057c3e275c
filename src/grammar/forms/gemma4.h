// <|tool_call>call:name{key:<|"|>text<|"|>,key:3}<tool_call|>: Gemma 4.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm gemma4[] = {{
    .name = "gemma4",
    .needs = {"<|tool_call>call:", "<tool_call|>"},
    .body = CallForm::Body::kMarked,
    .call_open = "<|tool_call>call:",
    .call_close = "}<tool_call|>",
    .name_close = "{",
    .quote = "<|\"|>",
}};

}  // namespace ingot::forms
