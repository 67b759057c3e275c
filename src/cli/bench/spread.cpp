#include "cli/bench/spread.h"

#include <algorithm>
#include <cmath>

namespace ingot {
namespace {

constexpr int kCurvePoints = 400;

struct Percentile {
  const char* name;
  double q;
};
constexpr Percentile kPercentiles[] = {{"p1", 0.01},  {"p10", 0.10}, {"p50", 0.50},
                                       {"p90", 0.90}, {"p95", 0.95}, {"p99", 0.99}};

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(q * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<size_t>(std::clamp(rank, 0.0, static_cast<double>(sorted.size() - 1)))];
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

JsonObject spread_json(std::span<const double> sorted) {
  JsonObject json{{"count", sorted.size()}, {"mean", mean(sorted)}};
  for (const Percentile& p : kPercentiles) json[p.name] = quantile(sorted, p.q);
  json["max"] = quantile(sorted, 1);
  return json;
}

std::string spread_line(const char* name, std::span<const double> sorted) {
  if (sorted.empty()) return {};
  std::string line = fmt::format("{:24} {:9.1f}", name, mean(sorted));
  for (const Percentile& p : kPercentiles) line += fmt::format(" {:9.1f}", quantile(sorted, p.q));
  return line + fmt::format(" {:9.1f}\n", quantile(sorted, 1));
}

std::string spread_header() {
  std::string text = fmt::format("{:24} {:>9}", "", "mean");
  for (const Percentile& p : kPercentiles) text += fmt::format(" {:>9}", p.name);
  return text + fmt::format(" {:>9}\n", "max");
}

JsonArray spread_curve(std::span<const double> sorted) {
  JsonArray points;
  const int n = static_cast<int>(std::min<size_t>(kCurvePoints, sorted.size()));
  for (int i = 1; i <= n; ++i) {
    const double q = static_cast<double>(i) / n;
    points.push_back(JsonArray{quantile(sorted, q), 100 * q});
  }
  return points;
}

}  // namespace ingot
