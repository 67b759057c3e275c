// <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>: gpt-oss. The channels around it are
// read by serve/answer/channels.h.
#pragma once

#include "grammar/call_form.h"

namespace ingot::forms {

inline constexpr CallForm harmony[] = {
    {.name = "harmony",
     .needs = {"<|channel|>commentary", "functions.", "<|call|>"},
     .body = CallForm::Body::kJson,
     .call_open = "<|channel|>commentary to=",
     .call_close = "<|call|>",
     .name_prefix = "functions.",
     .name_close = " <|constrain|>json<|message|>",
     .trigger = "<|channel|>commentary to=functions.",
     .one_call = true},
    {.name = "harmony-role",  // as the template writes earlier calls; no template is taken for this one
     .needs = {"<|start|>assistant to=functions.get"},
     .body = CallForm::Body::kJson,
     .call_open = "<|start|>assistant to=",
     .call_close = "<|call|>",
     .name_prefix = "functions.",
     .name_close = "<|channel|>commentary json<|message|>",
     .trigger = "<|start|>assistant to=functions.",
     .one_call = true},
};

}  // namespace ingot::forms
