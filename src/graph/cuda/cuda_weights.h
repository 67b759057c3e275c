// A program's weights in the memory of a device, each once, in their published formats. They are read by several
// threads straight from where they lie (a mapped file) into pinned memory and copied while the next are read; random
// ones that the host never made are made on the device. A node that has packed its matrices into another order gives
// the published ones back.
#pragma once

#include <cstdint>
#include <map>

#include "graph/program.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

// Bytes of the device that the program's weights need.
int64_t device_weight_bytes(Program& program);

class DeviceWeights {
 public:
  // Points every weight of every node to the device. `device` is the one in use. Throws Error where a file was cut
  // short while it was read.
  DeviceWeights(Program& program, int device, int threads);

  // What stays for good.
  const std::byte* data() const { return memory_.data(); }
  int64_t data_bytes() const { return memory_.bytes(); }
  int64_t bytes() const;  // with what was not given back
  // The matrices of program.nodes[node] that only it reads, where they are of a format that it may have packed.
  // REQUIRES: no work that reads them is under way.
  void give_back(size_t node) { own_.erase(node); }

 private:
  DeviceMemory memory_;
  std::map<size_t, DeviceMemory> own_;  // by node
};

}  // namespace ingot::cuda
