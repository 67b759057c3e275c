#include "cli/bench/pages/svg_text.h"

#include <fmt/format.h>

#include <cstddef>

namespace ingot {

std::string_view svg_style() {
  return R"(<style>
svg { font: 12px system-ui, sans-serif; }
.back { fill: #fff; } text { fill: #1b1f24; } .soft { fill: #626b76; } .head { font-weight: 600; }
.s0 { fill: #2563c9; } .s1 { fill: #d0661b; } .s2 { fill: #8a94a0; } .s3 { fill: #2f9e6e; }
@media (prefers-color-scheme: dark) {
  .back { fill: #14171a; } text { fill: #e6e9ec; } .soft { fill: #98a2ad; }
  .s0 { fill: #6ea8ff; } .s1 { fill: #f2a267; } .s2 { fill: #7c8692; } .s3 { fill: #5cc79a; }
}
</style>
)";
}

std::string svg_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string svg_number(double value) {
  if (value < 99.95) return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : 1);
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string svg_begin(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {:.0f}\" width=\"{}\" height=\"{:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n{}<rect class=\"back\" width=\"{}\" height=\"{:.0f}\" rx=\"8\"/>\n",
      width, height, width, height, svg_escaped(title), svg_style(), width, height);
}

}  // namespace ingot
