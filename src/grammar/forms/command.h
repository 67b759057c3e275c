// Command: a list of objects with "tool_name" and "parameters".
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm command[] = {
    {.name = "command",
     .needs = {"<|START_ACTION|>", "<|END_ACTION|>"},
     .open = "<|START_ACTION|>[\n    ",
     .close = "\n]<|END_ACTION|>",
     .separator = ",\n    ",
     .name_key = "tool_name",
     .arguments_key = "parameters",
     .members = "\"tool_call_id\": \"0\", "},
    {.name = "command-r",
     .needs = {"Action:", "```json", "directly-answer"},
     .excludes = {"<|START_ACTION|>"},
     .open = "Action: ```json\n[\n    ",
     .close = "\n]```",
     .separator = ",\n    ",
     .name_key = "tool_name",
     .arguments_key = "parameters"},
};

}  // namespace ingot::forms
