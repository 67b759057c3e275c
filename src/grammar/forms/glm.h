// <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>: GLM, Ling, Laguna, Spark, Hunyuan.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm glm[] = {
    {.name = "glm",
     .needs = {"<tool_call>", "<arg_key>", "<arg_value>"},
     .body = CallForm::Body::kParameters,
     .call_open = "<tool_call>",
     .call_close = "\n</tool_call>",
     .separator = "\n",
     .key_open = "\n<arg_key>",
     .key_close = "</arg_key>\n<arg_value>",
     .value_close = "</arg_value>"},
    {.name = "hunyuan",
     .needs = {"<tool_call:opensource>", "<arg_key:opensource>"},
     .body = CallForm::Body::kParameters,
     .open = "<tool_calls:opensource>\n",
     .close = "\n</tool_calls:opensource>",
     .call_open = "<tool_call:opensource>",
     .call_close = "\n</tool_call:opensource>",
     .separator = "\n",
     .name_close = "<tool_sep:opensource>",
     .key_open = "\n<arg_key:opensource>",
     .key_close = "</arg_key:opensource>\n<arg_value:opensource>",
     .value_close = "</arg_value:opensource>"},
};

}  // namespace ingot::forms
