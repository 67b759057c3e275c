// What may be chosen about a device, and what a runner on it is given. No CUDA here: the engine's config holds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/batch.h"
#include "tensor/device_place.h"
#include "tensor/dtype.h"

namespace ingot {

class Comm;

// Where the engine computes.
struct EngineDevice {
  int cuda = -1;                 // index of the CUDA device; -1: the CPU, and nothing else below says anything
  std::vector<int> cudas = {};   // of each rank, where several share a model, each on a device of its own
  int parts = 1;                 // so many ranks share `cuda`: each has a part of its multiprocessors
  bool graphs = true;            // steps are recorded once for each bucket
  bool overlap = true;           // a kernel may begin while the one before it ends
  bool ahead = true;             // the next step is launched while one runs
  bool batch_invariant = false;  // nobody's answer depends on who else is served; on the CPU it always holds
  bool f8_rows = false;          // rows that meet 8-bit floats are rounded to them, on devices that multiply these

  int ranks() const { return cudas.empty() ? parts : static_cast<int>(cudas.size()); }
  cuda::DevicePlace place(int rank) const {
    if (cudas.empty()) return {.index = cuda, .part = parts > 1 ? rank : 0, .parts = parts};
    return {.index = cudas[static_cast<size_t>(rank)]};
  }
};

// "cuda:1", "cuda:0,1" or "cuda:0/4".
inline std::string device_name(const EngineDevice& device) {
  std::string name = "cuda:" + std::to_string(device.place(0).index);
  for (size_t r = 1; r < device.cudas.size(); ++r) name += "," + std::to_string(device.cudas[r]);
  return device.parts > 1 ? name + "/" + std::to_string(device.parts) : name;
}

struct DeviceRunOptions {
  EngineDevice device;
  int rank = 0;          // where several share the model
  Comm* comm = nullptr;  // then: this rank's, with a thread for each
  StepLimits limits;
  int threads = 1;  // of the host, to read weights
  // Pages of each KV group: as many as are wanted and fit, and never fewer than `least_pages`.
  int pages = 0;
  int least_pages = 0;
  std::optional<DType> kv = {};  // of the cache; none: as the graph says
};

}  // namespace ingot
