// The ladders: every kernel from plain to the one that serves, a step for each idea. For `ingot bench ladder` and the
// report; nothing else includes it. A build with -DINGOT_LADDER=OFF has ladder_none.cpp behind it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ladder/rivals.h"
#include "ladder/step.h"

namespace ingot::ladder {

// A step as its file says it.
struct StepInfo {
  const char* op;  // "softmax"
  bool cuda;       // or the CPU
  int order;
  const char* name;    // "online"
  const char* reason;  // the file's first line
  const char* source;  // "src/ladder/softmax/2_online.cu"
  const char* hash;    // of the source and the .cuh beside it: the first 12 digits of a SHA-256
};

// Of all operators, one after another, steps on a CUDA device before those of the CPU, in order. Empty in a build
// without ladders.
std::span<const StepInfo> steps();

struct StepTime {
  const StepInfo* step = nullptr;
  double seconds = 0;  // the median; 0 on the emulated device
};

// A ladder at one size.
struct LadderTimes {
  std::string op;
  std::vector<int64_t> size;
  std::string dtype, variant;
  double bytes = 0, flops = 0, items = 0;
  std::string unit;
  Limit limit = Limit::kCopy;
  Multiplier multiplies = Multiplier::kF32;
  std::vector<StepTime> steps;
  std::vector<RivalTime> rivals;

  // "16384 x 16384 f32, one bin"
  std::string shape() const;
  // In `unit`, of a run that takes so long.
  double figure(double seconds) const;
};

// What the machine can do at most, measured before the ladders.
struct Limits {
  double read_gbs = 0;
  double copy_gbs = 0;  // bytes read and written together
  double f32_gflops = 0, bf16_gflops = 0, fp8_gflops = 0, int8_gops = 0;

  // Seconds that the nearer of memory and products needs at least; and which it is: "read", "copy", "f32" …
  double seconds(const LadderTimes& t) const;
  const char* name(const LadderTimes& t) const;
};

struct Listener {
  std::function<void(const std::string& device, const Limits&)> begin;
  std::function<void(const LadderTimes&)> each;  // when it is there; may throw to stop
};

// Measures the ladders that have steps on the CPU: medians of 20 runs of each step and rival in turn, on operands that
// pass through more than the caches. `names` select operators, all where there are none. Throws Error for a name that
// no operator has. `rivals` may be null.
void bench_ladders(ThreadPool& pool, const std::vector<std::string>& names, Rivals* rivals, const Listener& listener);
// The same on CUDA device `index`; steps are recorded. Throws Error where there is no such device.
void bench_cuda_ladders(int index, const std::vector<std::string>& names, Rivals* rivals, const Listener& listener);

}  // namespace ingot::ladder
