#include "cli/report/report_machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/machine.h"
#include "devices/gpu_work.h"
#include "devices/gpus.h"
#include "matmul/cpu/kernels.h"

namespace ingot {
namespace {

// Cuts off what stands before `separator`, without the spaces around it.
std::string_view take(std::string_view& rest, char separator) {
  std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  while (part.starts_with(' ')) part.remove_prefix(1);
  while (part.ends_with(' ')) part.remove_suffix(1);
  return part;
}

}  // namespace

int64_t memory_bytes_of(std::string_view meminfo) {
  while (!meminfo.empty()) {
    std::string_view line = take(meminfo, '\n');
    if (take(line, ':') != "MemTotal") continue;
    std::string_view number = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    int64_t kib = 0;
    std::from_chars(number.data(), number.data() + number.size(), kib);
    return kib * 1024;
  }
  return 0;
}

JsonObject machine_facts() {
  std::ifstream file("/proc/meminfo");
  const std::string meminfo{std::istreambuf_iterator<char>(file), {}};
  utsname system{};
  uname(&system);
  return {{"cpu", cpu_name()},
          {"cores", available_cores()},
          {"set", cpu::kernels().name},
          {"memory_bytes", memory_bytes_of(meminfo)},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)}};
}

GpuWatch::GpuWatch(int index) {
  nvml_ = Nvml::load(&why_);
  if (!nvml_) return;
  std::vector<Gpu> gpus;
  for (int i = 0; i < nvml_->count(); ++i) gpus.push_back(nvml_->gpu(i));
  number_gpus(gpus, {.bus_ids = cuda_bus_ids(), .visible = std::getenv("CUDA_VISIBLE_DEVICES")});
  const auto found = std::ranges::find(gpus, index, &Gpu::cuda);
  if (found == gpus.end()) {
    why_ = fmt::format("the driver knows no cuda:{}", index);
    return;
  }
  facts_["driver"] = nvml_->driver();
  thread_ = std::thread([this, i = found->nvml] {
    std::unique_lock lock(mutex_);
    do {
      try {
        add_gpu_facts(nvml_->gpu(i), facts_);
      } catch (const Error& error) {  // it has fallen off: what was seen stays
        why_ = error.what();
        return;
      }
    } while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stop_; }));
  });
}

GpuWatch::~GpuWatch() { stop(); }

void GpuWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

JsonObject GpuWatch::finish() {
  stop();
  return std::move(facts_);
}

void add_gpu_facts(const Gpu& gpu, JsonObject& facts) {
  const auto keep = [&](const char* key, double value) {
    if (value <= 0) return;
    const Json* before = find(facts, key);
    facts[key] = before ? std::max(before->as_double(), value) : value;
  };
  keep("gpu_clock_mhz", gpu.clock_mhz);
  keep("gpu_clock_most_mhz", gpu.most_clock_mhz);
  keep("gpu_memory_clock_mhz", gpu.memory_clock_mhz);
  keep("gpu_power_w", gpu.power_w);
  keep("gpu_power_limit_w", gpu.power_limit_w);
  keep("gpu_celsius", gpu.celsius);
}

}  // namespace ingot
