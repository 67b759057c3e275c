#include "bench/op_cases.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "bench/op_bench_list.inc"

namespace ingot {

#define X(NAME) void bench_##NAME(OpCases& cases);
INGOT_OP_BENCHES(X)
#undef X

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

OpCases all_cases() {
  OpCases cases;
#define X(NAME) bench_##NAME(cases);
  INGOT_OP_BENCHES(X)
#undef X
  return cases;
}

}  // namespace

OpCases op_cases(const std::vector<std::string>& names) {
  OpCases all = all_cases();
  const auto named = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  std::set<std::string> ops, formats;
  for (const OpCase& c : all) {
    ops.insert(c.op);
    if (!c.format.empty()) formats.insert(c.format);
  }
  bool by_op = false, by_format = false;
  for (const std::string& name : names) {
    by_op = by_op || ops.contains(name);
    by_format = by_format || formats.contains(name);
    if (ops.contains(name) || formats.contains(name)) continue;
    throw Error("[bench] there is no operator or format '{}'; known are {}; {}", name, fmt::join(ops, ", "),
                fmt::join(formats, ", "));
  }
  std::erase_if(all, [&](const OpCase& c) {
    if (by_op && !named(c.op)) return true;
    // An operator without formats is meant by its name alone.
    return by_format && !named(c.format) && !(by_op && c.format.empty());
  });
  if (all.empty()) throw Error("[bench] no operator has all of {}", fmt::join(names, ", "));
  return all;
}

double measure_op(const std::function<void()>& run, const std::function<void()>& between) {
  constexpr double kGroup = 2e-4, kWhole = 0.12;
  constexpr size_t kFewest = 5, kMost = 1000;
  const auto first = Clock::now();
  run();
  run();
  const int group = std::max(1, static_cast<int>(kGroup / (seconds_since(first) / 2)));
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kFewest || (seconds_since(start) < kWhole && times.size() < kMost)) {
    const auto begin = Clock::now();
    for (int i = 0; i < group; ++i) run();
    times.push_back(seconds_since(begin) / group);
    between();
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace ingot
