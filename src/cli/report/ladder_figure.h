// The figure of a ladder: a bar for each step and rival beside the limit.
#pragma once

#include <string>

#include "files/json.h"

namespace ingot {

// `ladder` is one of `ingot bench ladder --json`. A step that has no figure is shown as not measured, one with the
// member `stale` as such.
std::string ladder_svg(const JsonObject& ladder);

// What the limit allows, in the ladder's unit; 0: not known.
double ladder_limit(const JsonObject& ladder);

}  // namespace ingot
