// A program's weights in the memory of a device, each once, in their published formats. They are read by several
// threads straight from where they lie (a mapped file) into pinned memory and copied while the next are read; random
// ones that the host never made are made on the device.
#pragma once

#include <cstdint>

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

  const std::byte* data() const { return memory_.data(); }
  int64_t bytes() const { return memory_.bytes(); }

 private:
  DeviceMemory memory_;
};

}  // namespace ingot::cuda
