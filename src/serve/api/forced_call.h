// A call of a tool that the model has to make: its form as a schema and marks.
#pragma once

#include <string>
#include <string_view>

#include "serve/api/constraint_request.h"
#include "serve/api/tools_request.h"

namespace ingot {

// One call of one of tools.forced, its arguments held to the tool's schema; in Mistral's form one call or, where
// parallel ones are wanted, several. REQUIRES: something is forced, in a form that is read (tools_request.h).
ConstraintRequest forced_call(const ToolsOfRequest& tools, ToolForm form);

// From a place in the schema that forced_call() makes to one in a tool's parameters, in words.
std::string place_in_tools(std::string_view place);

}  // namespace ingot
