#include "base/numa.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/folder.h"

namespace ingot {
namespace {

constexpr const char* kNodes = "/sys/devices/system/node";

// Those of the cores that "0-3,8" names. What is no such list names none.
std::vector<int> named_cores(std::string_view list, const std::vector<int>& cores) {
  std::vector<int> named;
  const char *at = list.data(), *end = at + list.size();
  while (at != end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) return named;
    int last = first;
    if (next != end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc{}) return named;
      next = range.ptr;
    }
    std::ranges::copy_if(cores, std::back_inserter(named), [&](int core) { return core >= first && core <= last; });
    if (next == end || *next != ',') return named;
    at = next + 1;
  }
  return named;
}

// Of "Node 0 MemTotal:  24643328 kB".
void read_memory(const std::string& file, NumaNode& node) {
  std::ifstream lines(file);
  std::string word, key, unit;
  int id = 0;
  int64_t kib = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    if (!(fields >> word >> id >> key >> kib)) continue;
    if (key == "MemTotal:") node.total_bytes = kib * 1024;
    if (key == "MemFree:" || key == "FilePages:") node.free_bytes += kib * 1024;
    if (key == "Shmem:") node.free_bytes -= kib * 1024;  // counted as files, and not given up
  }
}

}  // namespace

std::vector<int> mask_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<size_t>(i), &set)) cores.push_back(i);
  }
  return cores;
}

int numa_nodes(const std::string& root, const std::vector<int>& cores) {
  return static_cast<int>(list_numa_nodes(root, cores).size());
}

int numa_nodes(const std::vector<int>& cores) { return numa_nodes(kNodes, cores); }

std::vector<NumaNode> list_numa_nodes(const std::string& root, const std::vector<int>& cores) {
  std::vector<NumaNode> nodes;
  int ignored = 0;
  for (const std::string& name : names_in(root, ignored)) {
    NumaNode node;
    const char* end = name.data() + name.size();
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, end, node.id).ptr != end) continue;
    std::ifstream file(root + "/" + name + "/cpulist");
    std::string list;
    if (std::getline(file, list)) node.cores = named_cores(list, cores);
    if (node.cores.empty()) continue;
    read_memory(root + "/" + name + "/meminfo", node);
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::id);
  if (nodes.empty()) nodes.push_back({.id = 0, .cores = cores});
  return nodes;
}

std::vector<NumaNode> list_numa_nodes(const std::vector<int>& cores) { return list_numa_nodes(kNodes, cores); }

}  // namespace ingot
