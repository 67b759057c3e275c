// A chart for pages: what every operator reaches below the limits of the machine.
#pragma once

#include <string_view>

namespace ingot {

// For a script of chart_page(): defines roofline(parent, results, machine), of `results` and `machine` as `ingot bench
// ops --json` prints them. Draws nothing where no case has operations or no limit was measured.
std::string_view roofline_script();

}  // namespace ingot
