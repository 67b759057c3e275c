// A list of objects between two marks: [{"name": …, "arguments": {…}}, …].
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm json_list[] = {
    {.name = "tool_calls",  // Apriel
     .needs = {"<tool_calls>[", "]</tool_calls>"},
     .open = "<tool_calls>[",
     .close = "]</tool_calls>",
     .separator = ", "},
    {.name = "toolcall",  // Nemotron Nano
     .needs = {"<TOOLCALL>", "</TOOLCALL>"},
     .open = "<TOOLCALL>[",
     .close = "]</TOOLCALL>",
     .separator = ", "},
    {.name = "phi4",
     .needs = {"<|tool_call|>", "<|/tool_call|>"},
     .open = "<|tool_call|>[",
     .close = "]<|/tool_call|>",
     .separator = ", "},
    {.name = "granite3",
     .needs = {"<|tool_call|>"},
     .excludes = {"<|/tool_call|>", "<|tool_call>call:"},
     .open = "<|tool_call|>[",
     .close = "]",
     .separator = ", "},
    {.name = "functools",  // Firefunction
     .needs = {"functools["},
     .open = " functools[",
     .close = "]",
     .separator = ", "},
};

}  // namespace ingot::forms
