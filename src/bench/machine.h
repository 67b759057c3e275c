// The machine under the benchmark: its name and its limits.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/thread_pool.h"

namespace ingot {

// The CPU's name: on AArch64 of its parts, "Neoverse-V1" or "Cortex-A76 + Cortex-A55".
std::string cpu_name();
// The same of the text of a /proc/cpuinfo. `otherwise` where it names none.
std::string cpu_name_of(std::string_view cpuinfo, std::string_view otherwise);

// GB/s of reading a buffer far larger than any cache with all threads of the pool, the best of five passes each.
struct ReadSpeeds {
  double ahead_gbs = 0;  // with prefetch
  double plain_gbs = 0;  // by loads alone

  // What percentages are of: the higher of both.
  double most_gbs() const { return std::max(ahead_gbs, plain_gbs); }
};
ReadSpeeds measure_reads(ThreadPool& pool);
// "reads 80.1 GB/s with prefetch, 55.6 plain"
std::string reads_text(const ReadSpeeds& reads);

// What this machine can do at most, measured with all threads of the pool.
struct Ceilings {
  ReadSpeeds reads;
  double int8_gops = 0;  // of the multiplier that the chosen instruction set has, two for each product
  double f32_gflops = 0;
  double bf16_gflops = 0;
};
Ceilings measure_ceilings(ThreadPool& pool);

}  // namespace ingot
