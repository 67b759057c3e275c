// A figure of bars, one below the other, beside a limit: an SVG that needs nothing from outside and is readable in
// light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

enum class BarKind : uint8_t { kOwn, kRival, kStale };

struct FigureBar {
  std::string label;
  double value = 0;  // 0: none was measured, and the note stands alone
  BarKind kind = BarKind::kOwn;
  std::string note = {};  // behind the number
};

struct BarFigure {
  std::string title;
  std::string unit;  // of the values, "GB/s"
  std::vector<FigureBar> bars;
  double limit = 0;             // a dashed line; 0: none
  std::string limit_name = {};  // "copy 4,280 GB/s"
};

std::string bar_figure_svg(const BarFigure& figure);

}  // namespace ingot
