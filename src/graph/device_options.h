// What may be chosen about a device, and what a runner on it is given. No CUDA here: the engine's config holds it.
#pragma once

#include <optional>

#include "ops/batch.h"
#include "tensor/dtype.h"

namespace ingot {

// Where the engine computes.
struct EngineDevice {
  int cuda = -1;                 // index of the CUDA device; -1: the CPU, and nothing else below says anything
  bool graphs = true;            // steps are recorded once for each bucket
  bool overlap = true;           // a kernel may begin while the one before it ends
  bool ahead = true;             // the next step is launched while one runs
  bool batch_invariant = false;  // nobody's answer depends on who else is served; on the CPU it always holds
};

struct DeviceRunOptions {
  EngineDevice device;  // its `cuda` is the device's index
  StepLimits limits;
  int threads = 1;  // of the host, to read weights
  // Pages of each KV group: as many as are wanted and fit, and never fewer than `least_pages`.
  int pages = 0;
  int least_pages = 0;
  std::optional<DType> kv = {};  // of the cache; none: as the graph says
};

}  // namespace ingot
