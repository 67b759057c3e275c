// Kimi: K2 writes functions.name:index and JSON, K3 a mark for each argument with its type.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm kimi[] = {
    {.name = "kimi-k2",
     .needs = {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
     .body = CallForm::Body::kJson,
     .open = "<|tool_calls_section_begin|>",
     .close = "<|tool_calls_section_end|>",
     .call_open = "<|tool_call_begin|>",
     .call_close = "<|tool_call_end|>",
     .name_prefix = "functions.",
     .id_open = ":",
     .name_close = "<|tool_call_argument_begin|>"},
    {.name = "kimi-k3",
     .needs = {"<|open|>", "call tool=\"", "<|close|>"},
     .body = CallForm::Body::kParameters,
     .open = "<|open|>tools<|sep|>",
     .close = "<|close|>tools<|sep|>",
     .call_open = "<|open|>call tool=\"",
     .call_close = "<|close|>call<|sep|>",
     .id_open = "\" index=\"",
     .name_close = "\"<|sep|>",
     .key_open = "<|open|>argument key=\"",
     .key_close = "\" type=\"",
     .value_close = "<|close|>argument<|sep|>",
     .attribute_close = "\"<|sep|>",
     .text_attribute = "string",
     .json_attribute = "object|array|number|integer|boolean|null"},
};

}  // namespace ingot::forms
