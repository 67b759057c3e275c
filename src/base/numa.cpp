#include "base/numa.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "base/folder.h"

namespace ingot {
namespace {

// Whether "0-3,8" names one of the cores. What is no such list names none.
bool names_one_of(std::string_view list, const std::vector<int>& cores) {
  const char *at = list.data(), *end = at + list.size();
  while (at != end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) return false;
    int last = first;
    if (next != end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc{}) return false;
      next = range.ptr;
    }
    if (std::ranges::any_of(cores, [&](int core) { return core >= first && core <= last; })) return true;
    if (next == end || *next != ',') return false;
    at = next + 1;
  }
  return false;
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
  int nodes = 0;
  int ignored = 0;
  for (const std::string& name : names_in(root, ignored)) {
    if (!name.starts_with("node")) continue;
    std::ifstream file(root + "/" + name + "/cpulist");
    std::string list;
    if (std::getline(file, list) && names_one_of(list, cores)) ++nodes;
  }
  return std::max(nodes, 1);
}

int numa_nodes(const std::vector<int>& cores) { return numa_nodes("/sys/devices/system/node", cores); }

}  // namespace ingot
