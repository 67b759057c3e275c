// All that the rest of the program sees of CUDA. Behind it one of three is linked: the backend (cuda_model.cpp with the
// device's runtime), the same with the host playing the device (tests), or cuda_none.cpp in a build without CUDA.
#pragma once

#include <memory>
#include <string>

#include "engine/model/device_model.h"
#include "graph/device_options.h"
#include "models/model.h"

namespace ingot {

// Empty where the engine can compute on CUDA device `index`. Else why not, in one line: the build has no CUDA, the
// machine no device or none of this index, or this program no kernels for it.
std::string cuda_refusal(int index);

// Throws Error, in one line: no such device, no kernel for it, too little memory, with how much is missing and what
// would fit.
std::unique_ptr<DeviceModel> make_cuda_model(const Model& model, const DeviceRunOptions& options);

}  // namespace ingot
