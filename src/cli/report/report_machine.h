// The machine under a report: what it is, and the clocks and the power of its GPU while the report is made.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/report/child.h"
#include "files/json.h"

namespace ingot {

// {cpu, cores, set, memory_bytes, system}; 0 or empty where the system does not tell.
JsonObject machine_facts();
// Bytes of the line MemTotal of /proc/meminfo.
int64_t memory_bytes_of(std::string_view meminfo);

// Asks nvidia-smi each second how a GPU runs.
class GpuWatch {
 public:
  explicit GpuWatch(int index);
  // {driver, gpu_clock_mhz, gpu_clock_most_mhz, gpu_memory_clock_mhz, gpu_power_w, gpu_power_limit_w, gpu_celsius}: the
  // highest of each. Empty where there is no nvidia-smi. Once.
  JsonObject finish();

 private:
  std::unique_ptr<Child> child_;
};

// The same of the lines that were printed.
JsonObject gpu_facts_of(std::string_view lines);

}  // namespace ingot
