// Calls of tools as what an answer is held to: the model's form, with the schema of each tool.
#pragma once

#include "serve/api/constraint_request.h"
#include "serve/api/tools_request.h"

namespace ingot {

// Calls of tools.forced, at least one and, where parallel ones are not wanted, no more: nothing else may be answered.
// REQUIRES: something is forced.
ConstraintRequest forced_call(const ToolsOfRequest& tools, const CallForm& form);

// Free text, in which whatever begins like a call of one of the tools is one.
ConstraintRequest offered_calls(const ToolsOfRequest& tools, const CallForm& form);

// Calls of the tools and nothing else, or the text that is wanted.
ConstraintRequest calls_or(ConstraintRequest text, const ToolsOfRequest& tools, const CallForm& form);

}  // namespace ingot
