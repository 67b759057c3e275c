// A benchmark's report as one HTML page: figures and charts drawn by the page's own script from the JSON it carries.
#pragma once

#include <string>
#include <string_view>

#include "files/json.h"

namespace ingot {

// A page that needs nothing from outside. `script` runs after the common one and finds there: `data`, the JSON; `body`;
// element(parent, name, attributes, text); round(number); spreads([[key, name]…]), the table of percentiles of
// data[key]; chart(parent, title, x, y, series, options), where a series is {name, style: "a" or "b", points: [[x,
// y]…]} and options are log, high, mark and stepped. No text of `data` can become markup.
std::string chart_page(std::string_view title, const JsonObject& data, std::string_view script);

}  // namespace ingot
