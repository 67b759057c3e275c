// A call of a tool that the model has to make: its form as a schema and marks.
#pragma once

#include <string>
#include <string_view>

#include "serve/api/constraint_request.h"
#include "serve/api/tools_request.h"

namespace ingot {

// One call of one of tools.forced, its arguments held to the tool's schema; in a form whose calls are a list one or,
// where parallel ones are wanted, several. Throws ApiError 400 where the form does not write arguments as JSON, or
// names the tool outside of it and several may be called. REQUIRES: something is forced.
ConstraintRequest forced_call(const ToolsOfRequest& tools, const CallForm& form);

// From a place in the schema that forced_call() makes to one in a tool's parameters, in words.
std::string place_in_tools(std::string_view place);

}  // namespace ingot
