// The tools of /v1/responses: their flat shape as the one that the other reader of tools takes.
#pragma once

#include <string>
#include <vector>

#include "serve/api/tools_request.h"

namespace ingot {

struct ResponseTools {
  ToolsOfRequest offered;
  std::vector<std::string> left_out;  // kinds of tools that run elsewhere
  JsonArray told;                     // what is offered, as the answer repeats it
};

// "tools", "tool_choice" and "parallel_tool_calls". Throws ApiError 400 that names the field: a tool of no known kind,
// a choice that needs a tool that runs elsewhere, and all that read_openai_tools() refuses.
ResponseTools read_response_tools(const JsonObject& body, const TaughtForm& form);

}  // namespace ingot
