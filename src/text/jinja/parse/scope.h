// Gives every name of a Program its slot, and checks what can be checked before it runs: unknown filters and tests,
// `break` outside a loop, assignments to `loop`.
#pragma once

#include "text/jinja/parse/ast.h"

namespace ingot::jinja {

// Throws Error naming line and column.
void resolve_names(Program& program);

}  // namespace ingot::jinja
