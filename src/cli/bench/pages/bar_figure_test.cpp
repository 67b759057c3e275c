#include "cli/bench/pages/bar_figure.h"

#include <gtest/gtest.h>

#include "files/files_test_support.h"

namespace ingot {
namespace {

TEST(BarFigure, BarsEndBelowTheLimit) {
  const BarFigure figure{.title = "<i>",
                         .unit = "GB/s",
                         .bars = {{.label = "1 plain", .value = 100, .note = "25 %"},
                                  {.label = "CUB", .value = 200, .kind = BarKind::kRival},
                                  {.label = "2 &c", .note = "not measured"}},
                         .limit = 400,
                         .limit_name = "copy"};
  const std::string svg = bar_figure_svg(figure);
  // 404 pixels are the limit's.
  for (const char* text :
       {"<rect class=\"s0\" x=\"266\" y=\"55\" width=\"101.0\"", "class=\"s1\" x=\"266\" y=\"77\" width=\"202.0\"",
        "x1=\"670.0\"", ">100 GB/s, 25 %<", ">200 GB/s<", ">not measured<", ">2 &amp;c<", ">copy<",
        "aria-label=\"&lt;i>\"", "prefers-color-scheme: dark"})
    EXPECT_TRUE(contains(svg, text)) << text << "\n" << svg;
  EXPECT_FALSE(contains(bar_figure_svg({.title = "none", .unit = "", .bars = {}}), "<line"));
}

}  // namespace
}  // namespace ingot
