// >>>name and JSON, to the next call or the end: Functionary 3.2.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm functionary[] = {{
    .name = "functionary",
    .needs = {">>>", "recipient"},
    .body = CallForm::Body::kJson,
    .call_open = ">>>",
    .name_close = "\n",
    .text_name = "all",
}};

}  // namespace ingot::forms
