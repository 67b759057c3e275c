// The page of `ingot report`.
#pragma once

#include <string>

#include "files/json.h"

namespace ingot {

// One HTML file that needs nothing from outside. `report` is as report_file.h says; `against`, where it is not empty,
// of compare_reports().
std::string report_page(const JsonObject& report, const JsonObject& against);

}  // namespace ingot
