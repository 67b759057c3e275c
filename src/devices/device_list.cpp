#include "devices/device_list.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/thread_pool.h"

namespace ingot {
namespace {

// "cuda:3", "cpu:0/2".
struct Named {
  bool gpu = false;
  int index = 0;
  int parts = 1;
};

bool read_number(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

Named parse(const std::string& name) {
  std::string_view rest = name;
  Named named;
  const auto good = [&] {
    named.gpu = rest.starts_with("cuda:");
    if (!named.gpu && !rest.starts_with("cpu:")) return false;
    rest.remove_prefix(named.gpu ? 5 : 4);
    if (!read_number(rest, named.index)) return false;
    if (rest.empty()) return true;
    if (!rest.starts_with('/')) return false;
    rest.remove_prefix(1);
    return read_number(rest, named.parts) && rest.empty() && named.parts > 0;
  };
  if (!good()) throw Error("[devices] '{}' is no device: cuda:N, cpu:N or cpu:N/PARTS", name);
  if (named.gpu && named.parts > 1) throw Error("[devices] {}: parts are of the CPU's cores alone", name);
  return named;
}

Device gpu_device(const Machine& machine, const std::string& name, int index) {
  if (machine.gpus.empty()) throw Error("[devices] {}: {}", name, machine.no_gpus);
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    if (gpu.cuda != index) continue;
    return {.name = name,
            .gpu = static_cast<int>(i),
            .node = 0,
            .cores = {},
            .total_bytes = gpu.total_bytes,
            .free_bytes = gpu.free_bytes};
  }
  const auto seen = std::ranges::count_if(machine.gpus, [](const Gpu& gpu) { return gpu.cuda >= 0; });
  throw Error("[devices] there is no {}: of {} GPUs this process sees {}", name, machine.gpus.size(), seen);
}

void add_node(const Machine& machine, const std::string& name, const Named& named, std::vector<Device>& devices) {
  const auto node = std::ranges::find(machine.nodes, named.index, &NumaNode::id);
  if (node == machine.nodes.end()) {
    throw Error("[devices] there is no {}: this process has cores of {} memory node{}", name, machine.nodes.size(),
                machine.nodes.size() == 1 ? "" : "s");
  }
  const auto cores = static_cast<int64_t>(node->cores.size());
  if (named.parts > cores) throw Error("[devices] {}: {} parts of {} cores", name, named.parts, cores);
  for (int part = 0; part < named.parts; ++part) {
    const ThreadPool::Range own = ThreadPool::share(cores, part, named.parts);
    devices.push_back({.name = named.parts == 1 ? name : fmt::format("{}.{}", name, part),
                       .gpu = -1,
                       .node = static_cast<int>(node - machine.nodes.begin()),
                       .cores = {node->cores.begin() + own.begin, node->cores.begin() + own.end},
                       .total_bytes = node->total_bytes / named.parts,
                       .free_bytes = node->free_bytes / named.parts});
  }
}

void check_once(const std::vector<Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Device &a = devices[j], &b = devices[i];
      const bool same =
          a.gpu >= 0 ? a.gpu == b.gpu : b.gpu < 0 && std::ranges::find_first_of(a.cores, b.cores) != a.cores.end();
      if (same) throw Error("[devices] {} is named twice", b.name);
    }
  }
}

}  // namespace

std::vector<Device> list_devices(const Machine& machine, const std::string& names) {
  std::vector<Device> devices;
  if (names.empty()) {
    for (const Gpu& gpu : machine.gpus) {
      if (gpu.cuda >= 0) devices.push_back(gpu_device(machine, fmt::format("cuda:{}", gpu.cuda), gpu.cuda));
    }
    if (!devices.empty()) return devices;
    for (const NumaNode& node : machine.nodes) {
      add_node(machine, fmt::format("cpu:{}", node.id), {.index = node.id}, devices);
    }
    return devices;
  }
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.size(), names.find(',', at));
    const std::string name = names.substr(at, end - at);
    at = end + 1;
    const Named named = parse(name);
    if (named.gpu) {
      devices.push_back(gpu_device(machine, name, named.index));
    } else {
      add_node(machine, name, named, devices);
    }
  }
  check_once(devices);
  return devices;
}

void stay_on(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  // Where the system refuses, the thread runs where it may: slower, not wrong.
  (void)sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace ingot
