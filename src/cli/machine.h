// The machine under the benchmark: its name and the memory bandwidth that plain reads reach.
#pragma once

#include <string>

#include "base/thread_pool.h"

namespace ingot {

std::string cpu_name();

// GB/s of reading a buffer far larger than any cache with all threads of the pool, the best of five passes.
double measure_read_gbs(ThreadPool& pool);

// The largest resident size of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace ingot
