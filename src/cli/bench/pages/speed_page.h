// The page of `ingot bench`: speed by batch.
#pragma once

#include <string>

#include "files/json.h"

namespace ingot {

// `report` is what --json prints: {results, machine, model}.
std::string speed_page(const JsonObject& report);

}  // namespace ingot
