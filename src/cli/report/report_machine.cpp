#include "cli/report/report_machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "base/thread_pool.h"
#include "bench/machine.h"
#include "matmul/cpu/kernels.h"

namespace ingot {
namespace {

struct Query {
  const char* key;   // of the JSON; the driver's is a text
  const char* name;  // as nvidia-smi calls it
};
constexpr Query kQueries[] = {
    {"driver", "driver_version"},           {"gpu_clock_mhz", "clocks.sm"}, {"gpu_clock_most_mhz", "clocks.max.sm"},
    {"gpu_memory_clock_mhz", "clocks.mem"}, {"gpu_power_w", "power.draw"},  {"gpu_power_limit_w", "power.limit"},
    {"gpu_celsius", "temperature.gpu"}};

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
  const auto program = find_program({"nvidia-smi"});
  if (!program) return;
  std::string names;
  for (const Query& query : kQueries) names += fmt::format("{}{}", names.empty() ? "" : ",", query.name);
  child_ = std::make_unique<Child>(std::vector<std::string>{
      *program, "--query-gpu=" + names, "--format=csv,noheader,nounits", "-i", std::to_string(index), "-lms", "1000"});
}

JsonObject GpuWatch::finish() { return child_ ? gpu_facts_of(child_->stop()) : JsonObject{}; }

JsonObject gpu_facts_of(std::string_view lines) {
  JsonObject facts;
  while (!lines.empty()) {
    std::string_view line = take(lines, '\n');
    for (const Query& query : kQueries) {
      const std::string_view text = take(line, ',');
      if (query.key == std::string_view("driver")) {
        if (!text.empty()) facts[query.key] = text;
        continue;
      }
      double value = 0;  // "[N/A]" of a GPU that does not tell
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (problem != std::errc() || end != text.data() + text.size()) continue;
      const Json* before = find(facts, query.key);
      facts[query.key] = before ? std::max(before->as_double(), value) : value;
    }
  }
  return facts;
}

}  // namespace ingot
