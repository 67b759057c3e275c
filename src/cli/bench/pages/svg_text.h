// What the charts that are written as SVG share.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// The style element of a chart, readable in light and dark: classes back, soft, head and s0 … s3.
std::string_view svg_style();
// Text that cannot become markup.
std::string svg_escaped(std::string_view text);
// 21,434, 48.3 or 2.05.
std::string svg_number(double value);
// The opening tag, the style and the ground.
std::string svg_begin(double width, double height, std::string_view title);

}  // namespace ingot
