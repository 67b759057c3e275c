#include "ladder/measure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace ingot::ladder {
namespace {

constexpr size_t kFewest = 3;
constexpr double kSlow = 0.4;  // seconds of one step in all
// Before each run of a product on a GPU, ours or another library's: products one after another exceed its power, the
// clock falls by up to 17 %, and who asks over a pipe has a pause that others have not.
constexpr std::chrono::milliseconds kRest{5};

// The times of one step or rival.
struct Series {
  std::vector<double> seconds;

  bool is_done() const {
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    return seconds.size() >= kFewest && all > kSlow;
  }
  double median() const {
    if (seconds.empty()) return 0;
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
};

}  // namespace

const StepInfo* find_step(const std::string& op, bool cuda, int order) {
  for (const StepInfo& step : steps()) {
    if (step.op == op && step.cuda == cuda && step.order == order) return &step;
  }
  CHECK(false, "no step {} of {}", order, op);
  return nullptr;
}

void check_names(const std::vector<std::string>& names, bool cuda) {
  std::set<std::string> known;
  for (const StepInfo& step : steps()) {
    if (step.cuda == cuda) known.insert(step.op);
  }
  for (const std::string& name : names) {
    if (known.contains(name)) continue;
    throw Error("[bench] there is no ladder of '{}' {}; known are {}", name, cuda ? "on a GPU" : "on the CPU",
                fmt::join(known, ", "));
  }
}

bool is_wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

void measure(LadderTimes& times, const std::vector<Runner>& runners, Rivals* rivals, const std::string& device,
             int rounds) {
  if (rivals != nullptr) times.rivals = rivals->begin(times.op, times.size, times.dtype, times.variant, device);
  if (rounds > 1) {  // pages are touched, kernels loaded
    for (const Runner& run : runners) run();
    for (RivalTime& rival : times.rivals) rivals->run(rival);
  }
  std::vector<Series> ours(runners.size()), theirs(times.rivals.size());
  const auto rest = [&] {
    if (rounds > 1 && times.unit == "TFLOP/s") std::this_thread::sleep_for(kRest);
  };
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < runners.size(); ++i) {
      if (ours[i].is_done()) continue;
      rest();
      ours[i].seconds.push_back(runners[i]());
    }
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (theirs[i].is_done() || !times.rivals[i].absent.empty()) continue;
      rest();
      theirs[i].seconds.push_back(rivals->run(times.rivals[i]));
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) times.steps[i].seconds = ours[i].median();
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (times.rivals[i].absent.empty()) times.rivals[i].seconds = theirs[i].median();
  }
}

std::string LadderTimes::shape() const {
  return fmt::format("{} {}{}{}", fmt::join(size, " x "), dtype, variant.empty() ? "" : ", ", variant);
}

double LadderTimes::figure(double seconds) const {
  if (seconds <= 0) return 0;
  if (unit == "TFLOP/s") return flops / seconds / 1e12;
  if (unit == "GFLOP/s") return flops / seconds / 1e9;
  return (items > 0 ? items : bytes) / seconds / 1e9;
}

namespace {

double memory_seconds(const Limits& l, const LadderTimes& t) {
  const double gbs = t.limit == Limit::kRead ? l.read_gbs : l.copy_gbs;
  return gbs > 0 ? t.bytes / 1e9 / gbs : 0;
}
double product_seconds(const Limits& l, const LadderTimes& t) {
  const double most = t.multiplies == Multiplier::kF32    ? l.f32_gflops
                      : t.multiplies == Multiplier::kBf16 ? l.bf16_gflops
                      : t.multiplies == Multiplier::kFp8  ? l.fp8_gflops
                                                          : l.int8_gops;
  return most > 0 ? t.flops / 1e9 / most : 0;
}

}  // namespace

double Limits::seconds(const LadderTimes& t) const {
  return std::max(memory_seconds(*this, t), product_seconds(*this, t));
}

const char* Limits::name(const LadderTimes& t) const {
  if (memory_seconds(*this, t) >= product_seconds(*this, t)) return t.limit == Limit::kRead ? "read" : "copy";
  switch (t.multiplies) {
    case Multiplier::kF32:
      return "f32";
    case Multiplier::kBf16:
      return "bf16";
    case Multiplier::kFp8:
      return "fp8";
    case Multiplier::kInt8:
      break;
  }
  return "int8";
}

}  // namespace ingot::ladder
