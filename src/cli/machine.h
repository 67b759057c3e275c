// The machine under the benchmark: its name and its limits.
#pragma once

#include <string>

#include "base/thread_pool.h"

namespace ingot {

std::string cpu_name();

// GB/s of reading a buffer far larger than any cache with all threads of the pool, the best of five passes.
double measure_read_gbs(ThreadPool& pool);

// What this machine can do at most, measured with all threads of the pool.
struct Ceilings {
  double read_gbs = 0;
  double int8_gops = 0;  // of the multiplier that the chosen instruction set has, two for each product
  double f32_gflops = 0;
  double bf16_gflops = 0;
};
Ceilings measure_ceilings(ThreadPool& pool);

// The largest resident size of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace ingot
