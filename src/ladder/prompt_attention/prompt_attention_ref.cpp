#include "ladder/prompt_attention/prompt_attention.h"

namespace ingot::ref {

void run(const PromptAttention& op, Ctx&) { attend(op); }

}  // namespace ingot::ref
