// Results of `ingot bench --json` as a chart: one SVG that needs nothing from outside and is readable in light and
// dark.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

// What one engine reached.
struct BenchSeries {
  std::string name;
  // Of each: `label`, or where there is none its `batch`; `prefill_tps` and `decode_tps`, of which 0 or none is not
  // drawn.
  JsonArray results;
};

struct BenchChart {
  std::string title;
  std::vector<BenchSeries> series;
};

// Documents of `ingot bench --json`, one engine each: {results, name, title, …}. Without `name` it is the file's
// without .json; the title is the first document's, or none. Throws Error where one cannot be read or has no results.
BenchChart read_bench_chart(const std::vector<std::string>& files);

// Bars of prefill and of decode side by side, a group for each label in the order of its first appearance. Several
// series are compared: each group has a scale of its own, and its longest bar is its best. One series has one scale.
std::string bench_chart_svg(const BenchChart& chart);

}  // namespace ingot
