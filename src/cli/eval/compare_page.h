// The page of `ingot eval compare`.
#pragma once

#include <string>

#include "files/json.h"

namespace ingot {

// `report` is what --json prints: {teacher, models, text, chunks, chunk_tokens, tokens, seconds}, of each model also
// its worst_tensors, and of all the tasks where there are any.
std::string compare_page(const JsonObject& report);

}  // namespace ingot
