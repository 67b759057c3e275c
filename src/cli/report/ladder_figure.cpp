#include "cli/report/ladder_figure.h"

#include <fmt/format.h>

#include "cli/bench/pages/bar_figure.h"
#include "cli/bench/pages/svg_text.h"
#include "cli/report/report_file.h"

namespace ingot {

double ladder_limit(const JsonObject& ladder) {
  // All figures of a ladder are the same work over their seconds; so is the limit's.
  const double seconds = get_float(ladder, "limit_seconds", 0);
  if (seconds <= 0) return 0;
  for (const char* key : {"steps", "rivals"}) {
    for (const Json& item : list_of(ladder, key)) {
      const double own = get_float(item.as_object(), "seconds", 0), figure = get_float(item.as_object(), "figure", 0);
      if (own > 0 && figure > 0) return figure * own / seconds;
    }
  }
  return 0;
}

std::string ladder_svg(const JsonObject& ladder) {
  BarFigure figure{.title = fmt::format("{}, {}, {}", get_string(ladder, "op"), get_string(ladder, "shape"),
                                        get_string(ladder, "device")),
                   .unit = get_string(ladder, "unit"),
                   .bars = {},
                   .limit = ladder_limit(ladder)};
  if (figure.limit > 0)
    figure.limit_name = fmt::format("{}: {} {}", get_string(ladder, "limit"), svg_number(figure.limit), figure.unit);
  for (const Json& item : list_of(ladder, "steps")) {
    const JsonObject& step = item.as_object();
    const double value = get_float(step, "figure", 0);
    const bool stale = get_bool(step, "stale", false);
    const std::string note = value <= 0 ? "not measured"
                             : stale    ? "stale: the step has changed"
                                        : fmt::format("{:.0f} %", get_float(step, "percent_of_limit", 0));
    figure.bars.push_back({.label = fmt::format("{} {}", get_int(step, "order"), get_string(step, "name")),
                           .value = value,
                           .kind = stale ? BarKind::kStale : BarKind::kOwn,
                           .note = note});
  }
  for (const Json& item : list_of(ladder, "rivals")) {
    const JsonObject& rival = item.as_object();
    const double value = get_float(rival, "figure", 0);
    if (value > 0) figure.bars.push_back({.label = get_string(rival, "name"), .value = value, .kind = BarKind::kRival});
  }
  return bar_figure_svg(figure);
}

}  // namespace ingot
