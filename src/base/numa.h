// The cores that a thread may use, and the memory nodes that they lie on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

// The cores of the calling thread's affinity mask; empty where the system does not tell.
std::vector<int> mask_cores();

// How many nodes the cores lie on, by the files node*/cpulist ("0-3,8") under `root`; 1 where those do not tell.
int numa_nodes(const std::string& root, const std::vector<int>& cores);

// The same for this machine.
int numa_nodes(const std::vector<int>& cores);

// A memory node and those of its cores that may be used.
struct NumaNode {
  int id = 0;
  std::vector<int> cores;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // with what only caches files
};

// The nodes that the cores lie on, by their ids, by the files node*/cpulist and node*/meminfo under `root`. Where those
// do not tell: one node, 0, with all cores and no bytes.
std::vector<NumaNode> list_numa_nodes(const std::string& root, const std::vector<int>& cores);

// The same for this machine.
std::vector<NumaNode> list_numa_nodes(const std::vector<int>& cores);

}  // namespace ingot
