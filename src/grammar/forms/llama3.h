// {"name": …, "parameters": {…}} as the whole answer, or after <|python_tag|>: Llama 3.1 to 3.3.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm llama3[] = {
    {.name = "llama3",
     .needs = {"Respond in the format {\"name\": function name, \"parameters\": dictionary", "<|start_header_id|>"},
     .separator = "; ",
     .arguments_key = "parameters",
     .bare = true,
     .one_call = true},
    {.name = "llama3-tag",  // read beside it; no template is taken for this one
     .needs = {"<|python_tag|>", "Respond in the format {\"name\": function name, \"parameters\": dictionary"},
     .excludes = {"<|start_header_id|>"},
     .open = "<|python_tag|>",
     .separator = "; ",
     .arguments_key = "parameters"},
};

}  // namespace ingot::forms
