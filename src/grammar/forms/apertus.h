// <|tools_prefix|>[{"name": {…}}, …]<|tools_suffix|>
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm apertus[] = {{
    .name = "apertus",
    .needs = {"<|tools_prefix|>", "<|tools_suffix|>"},
    .body = CallForm::Body::kJson,
    .open = "<|tools_prefix|>[",
    .close = "]<|tools_suffix|>",
    .call_open = "{\"",
    .call_close = "}",
    .separator = ", ",
    .name_close = "\": ",
}};

}  // namespace ingot::forms
