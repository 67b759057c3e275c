// Figures of a benchmark's report: percentiles, rates and curves of measured values, in the same form in every report.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "files/json.h"

namespace ingot {

// The smallest of `sorted` that at least the share `q` of all are not above; 0 where there are none.
double quantile(std::span<const double> sorted, double q);
// 0 where there are none.
double mean(std::span<const double> values);
// 0 where the whole is.
double percent(double part, double whole);
// A second; 0 where no time has passed.
double rate(int64_t count, double seconds);

// {count, mean, p1, p10, p50, p90, p95, p99, max}
JsonObject spread_json(std::span<const double> sorted);
// The same as a line of a table without the count; empty where there are no values.
std::string spread_line(const char* name, std::span<const double> sorted);
std::string spread_header();
// [[value, percent of all that are not above it]…], a few hundred points
JsonArray spread_curve(std::span<const double> sorted);

}  // namespace ingot
