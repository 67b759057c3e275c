#include "cli/bench/pages/bar_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/bench/pages/svg_text.h"

namespace ingot {
namespace {

// All in pixels of a picture of 860.
constexpr double kWidth = 860, kMargin = 16, kTop = 52, kBar = 22, kLabel = 250, kNumber = 190;

const char* style_of(BarKind kind) { return kind == BarKind::kOwn ? "s0" : kind == BarKind::kRival ? "s1" : "s2"; }

}  // namespace

std::string bar_figure_svg(const BarFigure& figure) {
  const double height = kTop + kBar * static_cast<double>(figure.bars.size()) + 12;
  double most = figure.limit;
  for (const FigureBar& bar : figure.bars) most = std::max(most, bar.value);
  const double x = kMargin + kLabel, scale = most > 0 ? (kWidth - x - kNumber) / most : 0;
  std::string svg = svg_begin(kWidth, height, figure.title);
  const auto out = std::back_inserter(svg);
  fmt::format_to(out, "<text class=\"head\" x=\"{}\" y=\"22\">{}</text>\n", kMargin, svg_escaped(figure.title));
  double y = kTop;
  for (const FigureBar& bar : figure.bars) {
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", x - 8, y + 15,
                   svg_escaped(bar.label));
    const double width = bar.value > 0 ? std::max(1.0, bar.value * scale) : 0;
    if (width > 0) {
      fmt::format_to(out, "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"/>\n",
                     style_of(bar.kind), x, y + 3, width, kBar - 6);
    }
    const std::string number = width > 0 ? fmt::format("{} {}", svg_number(bar.value), figure.unit) : "";
    fmt::format_to(out, "<text class=\"soft\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x + width + 6, y + 15,
                   svg_escaped(number + (number.empty() || bar.note.empty() ? "" : ", ") + bar.note));
    y += kBar;
  }
  if (figure.limit > 0) {
    const double at = x + figure.limit * scale;
    fmt::format_to(
        out,
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#8a94a0\" "
        "stroke-dasharray=\"3 3\"/>\n<text class=\"soft\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
        at, at, kTop - 6, y + 2, at, kTop - 11, "middle", svg_escaped(figure.limit_name));
  }
  return svg + "</svg>\n";
}

}  // namespace ingot
