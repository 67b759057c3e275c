#include "cli/bench/pages/chart_svg.h"

#include <algorithm>
#include <filesystem>

#include "cli/bench/pages/svg_text.h"

namespace ingot {
namespace {

// All in pixels of a picture of 860.
constexpr double kWidth = 860, kMargin = 16, kTitle = 58, kBar = 14, kGap = 12, kLabel = 150, kNumber = 62;
constexpr double kPanel = (kWidth - 3 * kMargin) / 2;
constexpr size_t kColours = 4;  // of engines in the style below; more share them

struct Bar {
  size_t series = 0;
  double value = 0;
};

struct Group {
  std::string label;
  std::vector<Bar> bars;
};

std::string label_of(const JsonObject& result) {
  const std::string label = get_string(result, "label", "");
  return label.empty() ? fmt::format("batch {}", get_int(result, "batch")) : label;
}

std::vector<Group> groups_of(const std::vector<BenchSeries>& series, const char* key) {
  std::vector<Group> groups;
  for (size_t s = 0; s < series.size(); ++s) {
    for (const Json& item : series[s].results) {
      const JsonObject& result = as_object(item, "[bench] a result");
      const double value = get_float(result, key, 0);
      if (!(value > 0)) continue;
      const std::string label = label_of(result);
      auto group = std::ranges::find(groups, label, &Group::label);
      if (group == groups.end()) group = groups.insert(groups.end(), {.label = label, .bars = {}});
      group->bars.push_back({s, value});
    }
  }
  return groups;
}

double largest(const Group& group) { return std::ranges::max(group.bars, {}, &Bar::value).value; }

double height_of(const std::vector<Group>& groups) {
  double height = 0;
  for (const Group& group : groups) height += static_cast<double>(group.bars.size()) * kBar + kGap;
  return height;
}

// One group after another, from `x` on.
void draw_panel(std::string& svg, const std::vector<Group>& groups, const char* name, double x, bool compared) {
  const auto out = std::back_inserter(svg);
  fmt::format_to(out, "<text class=\"head\" x=\"{}\" y=\"{}\">{}</text>\n", x, kTitle + 4, name);
  double most = 0, y = kTitle + kGap;
  for (const Group& group : groups) most = std::max(most, largest(group));
  for (const Group& group : groups) {
    const double scale = (kPanel - kLabel - kNumber) / (compared ? largest(group) : most);
    const double middle = y + static_cast<double>(group.bars.size()) * kBar / 2 + 4;
    fmt::format_to(out, "<text x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", x + kLabel - 8, middle,
                   svg_escaped(group.label));
    for (const Bar& bar : group.bars) {
      const double width = std::max(1.0, bar.value * scale);
      fmt::format_to(out, "<rect class=\"s{}\" x=\"{}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"/>\n",
                     bar.series % kColours, x + kLabel, y + 1, width, kBar - 2);
      fmt::format_to(out, "<text class=\"soft\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", x + kLabel + width + 5,
                     y + kBar - 3, svg_number(bar.value));
      y += kBar;
    }
    y += kGap;
  }
}

}  // namespace

BenchChart read_bench_chart(const std::vector<std::string>& files) {
  BenchChart chart;
  for (const std::string& file : files) {
    const Json json = read_json_file(file);
    const JsonObject& document = as_object(json, "[bench] " + file);
    const JsonArray* results = find_array(document, "results");
    if (!results || results->empty()) throw Error("[bench] '{}' has no results", file);
    if (chart.series.empty()) chart.title = get_string(document, "title", "");
    const std::string stem = std::filesystem::path(file).stem().string();
    chart.series.push_back({get_string(document, "name", stem), *results});
  }
  return chart;
}

std::string bench_chart_svg(const BenchChart& chart) {
  const auto& [title, series] = chart;
  const std::vector<Group> prefill = groups_of(series, "prefill_tps"), decode = groups_of(series, "decode_tps");
  const bool compared = series.size() > 1;
  const double height = kTitle + kGap + std::max(height_of(prefill), height_of(decode)) + 6;
  std::string svg = svg_begin(kWidth, height, title);
  const auto out = std::back_inserter(svg);
  fmt::format_to(out, "<text class=\"head\" x=\"{}\" y=\"22\">{}</text>\n", kMargin, svg_escaped(title));
  double x = kMargin;
  for (size_t s = 0; s < series.size(); ++s) {
    fmt::format_to(out, "<rect class=\"s{}\" x=\"{}\" y=\"32\" width=\"10\" height=\"10\" rx=\"2\"/>\n", s % kColours,
                   x);
    fmt::format_to(out, "<text class=\"soft\" x=\"{}\" y=\"41\">{}</text>\n", x + 15, svg_escaped(series[s].name));
    x += 34 + 7.0 * static_cast<double>(series[s].name.size());
  }
  if (compared) {
    fmt::format_to(out,
                   "<text class=\"soft\" x=\"{}\" y=\"41\" text-anchor=\"end\">each group has its own scale</text>\n",
                   kWidth - kMargin);
  }
  draw_panel(svg, prefill, "prefill, tokens a second", kMargin, compared);
  draw_panel(svg, decode, "decode, tokens a second", 2 * kMargin + kPanel, compared);
  return svg + "</svg>\n";
}

}  // namespace ingot
