// Which GPU CUDA's number means, and the machine as a whole: GPUs, their links, and the memory nodes of the CPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/numa.h"
#include "devices/nvml.h"

namespace ingot {

// What CUDA goes by when it numbers GPUs.
struct CudaNumbering {
  std::vector<std::string> bus_ids = {};  // of CUDA's devices in its order, where CUDA itself could be asked
  const char* visible = nullptr;          // CUDA_VISIBLE_DEVICES; null: not set
};

// Sets Gpu::cuda of all. Without `bus_ids` by CUDA's rules: `visible` names GPUs by number, in the order of their bus
// ids, or by the begin of their UUID; what follows a name that is none is not seen. Throws Error for a GPU that is
// named twice.
void number_gpus(std::vector<Gpu>& gpus, const CudaNumbering& numbering);

struct Machine {
  std::string driver;                       // empty: no GPUs can be asked
  std::string no_gpus;                      // why there are none; empty: there are some
  std::vector<Gpu> gpus;                    // those with a CUDA number first, in its order
  std::vector<std::vector<GpuLink>> links;  // [gpu][gpu], as in gpus
  std::vector<NumaNode> nodes;
};

// As it is now. Throws Error where CUDA_VISIBLE_DEVICES names a GPU twice.
Machine read_machine();

}  // namespace ingot
