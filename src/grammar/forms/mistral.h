// [TOOL_CALLS]name[ARGS]{…}, before Mistral Small 3.2 [TOOL_CALLS][{"name": …, "arguments": {…}}, …].
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm mistral[] = {
    {.name = "mistral",
     .needs = {"[TOOL_CALLS]"},
     .excludes = {"[ARGS]"},
     .open = "[TOOL_CALLS] [",
     .close = "]",
     .separator = ", ",
     .short_ids = true},
    {.name = "mistral-args",
     .needs = {"[TOOL_CALLS]", "[ARGS]"},
     .body = CallForm::Body::kJson,
     .call_open = "[TOOL_CALLS]",
     .id_open = "[CALL_ID]",
     .name_close = "[ARGS]",
     .short_ids = true},
    {.name = "mistral-object",  // some write one object without its list; no template is taken for this one
     .needs = {"[TOOL_CALLS]{\"name\""},
     .open = "[TOOL_CALLS]",
     .separator = ", ",
     .short_ids = true},
};

}  // namespace ingot::forms
