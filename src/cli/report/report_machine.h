// The machine under a report: what it is, and the clocks and the power of its GPU while the report is made.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "devices/nvml.h"
#include "files/json.h"

namespace ingot {

// {cpu, cores, set, memory_bytes, system}; 0 or empty where the system does not tell.
JsonObject machine_facts();
// Bytes of the line MemTotal of /proc/meminfo.
int64_t memory_bytes_of(std::string_view meminfo);

// Asks the driver each second how a GPU runs.
class GpuWatch {
 public:
  // `index`: as in --device cuda:N.
  explicit GpuWatch(int index);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // {driver, gpu_clock_mhz, gpu_clock_most_mhz, gpu_memory_clock_mhz, gpu_power_w, gpu_power_limit_w, gpu_celsius}: the
  // highest of each. Empty where the driver cannot be asked: why() says why not. Once.
  JsonObject finish();
  const std::string& why() const { return why_; }

 private:
  void stop();

  std::unique_ptr<Nvml> nvml_;
  std::string why_;
  JsonObject facts_;  // of the thread, until it has ended
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

// Adds what a GPU does now, keeping the highest of each; what it does not tell is left out.
void add_gpu_facts(const Gpu& gpu, JsonObject& facts);

}  // namespace ingot
