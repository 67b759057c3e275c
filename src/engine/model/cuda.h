// All that the rest of the program sees of CUDA. Behind it one of three is linked: the backend (cuda_model.cpp with the
// device's runtime), the same with the host playing the device (tests), or cuda_none.cpp in a build without CUDA.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/device_model.h"
#include "models/model.h"
#include "ops/batch.h"

namespace ingot {

// Empty where the engine can compute on CUDA device `index`. Else why not, in one line: the build has no CUDA, the
// machine no device or none of this index, or this program no kernels for it.
std::string cuda_refusal(int index);

struct CudaModelOptions {
  int device = 0;
  StepLimits limits;
  int threads = 1;  // of the host, to read weights
  // Pages of each KV group: as many as are wanted and fit, and never fewer than `least_pages`.
  int pages = 0;
  int least_pages = 0;
  std::optional<DType> kv = {};  // of the cache; none: as the graph says
  bool graphs = true;            // steps are recorded once for each bucket
  bool overlap = true;           // a kernel may begin while the one before it ends
  bool ahead = true;             // a step may be launched while the one in front runs
  bool batch_invariant = false;
};

// Throws Error, in one line: no such device, no kernel for it, too little memory, with how much is missing and what
// would fit.
std::unique_ptr<DeviceModel> make_cuda_model(const Model& model, const CudaModelOptions& options);

// An operator alone, on a device.
struct DeviceOpTime {
  std::string op, shape;
  double bytes = 0;  // that it must read and write
  double flops = 0;
  double seconds = 0;
};
struct DeviceOpsListener {
  std::function<void(const std::string& device, const DeviceCeilings&)> begin;
  std::function<void(const DeviceOpTime&)> each;  // when it is there; may throw to stop
};
// Times operators of an 8B model in BF16; `names` select some. Throws Error for a name that none has, and as above.
void bench_cuda_ops(int device, const std::vector<std::string>& names, const DeviceOpsListener& listener);

}  // namespace ingot
