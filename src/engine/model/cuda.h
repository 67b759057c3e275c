// All that the rest of the program sees of CUDA. Behind it one of three is linked: the backend (cuda_model.cpp with the
// device's runtime), the same with the host playing the device (tests), or cuda_none.cpp in a build without CUDA.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/config.h"
#include "engine/model/device_model.h"
#include "models/model.h"

namespace ingot {

// Empty where the engine can compute on CUDA device `index`. Else why not, in one line: the build has no CUDA, the
// machine no device or none of this index, or this program no kernels for it.
std::string cuda_refusal(int index);

struct CudaModelOptions {
  EngineDevice device;  // its `cuda` is the device's index
  StepLimits limits;
  int threads = 1;  // of the host, to read weights
  // Pages of each KV group: as many as are wanted and fit, and never fewer than `least_pages`.
  int pages = 0;
  int least_pages = 0;
  std::optional<DType> kv = {};  // of the cache; none: as the graph says
};

// Throws Error, in one line: no such device, no kernel for it, too little memory, with how much is missing and what
// would fit.
std::unique_ptr<DeviceModel> make_cuda_model(const Model& model, const CudaModelOptions& options);

}  // namespace ingot
