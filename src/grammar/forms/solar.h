// Solar Open: an id, the name and JSON, each after a mark.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm solar[] = {{
    .name = "solar",
    .needs = {"<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>"},
    .body = CallForm::Body::kJson,
    .open = "<|tool_calls|>",
    .call_open = "<|tool_call:begin|>",
    .call_close = "<|tool_call:end|>",
    .id_close = "<|tool_call:name|>",
    .name_close = "<|tool_call:args|>",
}};

}  // namespace ingot::forms
