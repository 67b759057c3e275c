// The memory nodes of the machine.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// How many nodes the cores lie on, by the files node*/cpulist ("0-3,8") under `root`; 1 where those do not tell.
int numa_nodes(const std::string& root, const std::vector<int>& cores);

// The same for this machine.
int numa_nodes(const std::vector<int>& cores);

}  // namespace ingot
