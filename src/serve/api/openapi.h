// The description of the API for programs, written from the table of fields.
#pragma once

#include <string>

#include "files/json.h"

namespace ingot {

// An OpenAPI 3.1 document; `version` is the program's.
Json openapi_document(const std::string& version);

}  // namespace ingot
