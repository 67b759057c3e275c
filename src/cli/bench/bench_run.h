// The work of a benchmark on a model: prompts of different tokens read together, answers of a fixed length made.
#pragma once

#include <functional>

#include "cli/bench/bench_profile.h"
#include "engine/engine.h"

namespace ingot {

// Of one run.
enum class BenchMoment : uint8_t { kBegin, kAllFirst, kEnd };

struct BenchWork {
  int prompt = 512;  // tokens of each prompt
  int gen = 128;     // tokens to make for each
  int repeat = 5;    // runs; the median counts
  bool verbose = false;
  // Called in each run, the first of which touches memory and does not count; null: nobody asks.
  std::function<void(BenchMoment)> at = {};
};

struct BenchSpeed {
  int batch = 0;
  double first = 0;  // seconds until every seq has its first token
  double whole = 0;

  double prefill_tps(const BenchWork& work) const { return batch * work.prompt / first; }
  double decode_tps(const BenchWork& work) const { return work.gen > 1 ? batch * (work.gen - 1) / (whole - first) : 0; }
};

// Throws Interrupted where a signal came. REQUIRES: an InterruptGuard lives.
BenchSpeed measure_speed(Engine& engine, int batch, const BenchWork& work);

// One profile of the steps that read the prompts, and one of those that make tokens.
struct StepProfiles {
  Profile prefill, decode;
};
StepProfiles profile_work(Engine& engine, int batch, const BenchWork& work);

}  // namespace ingot
