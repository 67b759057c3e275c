// What the system says about this process, for metrics.
#pragma once

#include <cstdint>

namespace ingot {

struct ProcessFacts {
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_fds = 0, max_fds = 0;
  int64_t threads = 0;
  double cpu_seconds = 0;
  double start_seconds = 0;  // unix time
};

// Any thread. What cannot be read is 0.
ProcessFacts process_facts();

}  // namespace ingot
