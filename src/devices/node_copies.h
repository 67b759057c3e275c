// How fast the cores of one memory node read the memory of another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "devices/device_list.h"

namespace ingot {

// From the memory of one device of the CPU to that of the one whose cores copy.
struct NodePair {
  std::string from, to;
  bool right = false;   // every word came as it was written
  double copy_gbs = 0;  // bytes copied, best of three
  double ns = 0;        // of one load that nothing foresees
};

// Every pair of `devices`, each with itself too. `tell` hears of each and may throw. `bytes` of memory are taken twice.
std::vector<NodePair> test_nodes(const std::vector<Device>& devices, int64_t bytes,
                                 const std::function<void(const NodePair&)>& tell);

}  // namespace ingot
