// /v1/limits: the table of fields for people and programs that want the numbers alone.
#pragma once

#include "files/json.h"

namespace ingot {

// Each endpoint's fields with type, range, limits, default and effect.
JsonObject field_limits();

}  // namespace ingot
