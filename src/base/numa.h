// The cores that a thread may use, and the memory nodes that they lie on.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// The cores of the calling thread's affinity mask; empty where the system does not tell.
std::vector<int> mask_cores();

// How many nodes the cores lie on, by the files node*/cpulist ("0-3,8") under `root`; 1 where those do not tell.
int numa_nodes(const std::string& root, const std::vector<int>& cores);

// The same for this machine.
int numa_nodes(const std::vector<int>& cores);

}  // namespace ingot
