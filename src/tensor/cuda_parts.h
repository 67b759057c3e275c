// Parts of a GPU: green contexts, by the driver's functions, which are looked up when the first part is asked for.
#pragma once

#include "tensor/cuda.h"
#include "tensor/device_place.h"

namespace ingot::cuda {

struct DevicePart {
  int multiprocessors = 0;
  void* context = nullptr;  // a CUgreenCtx, for the life of the process
};

// All parts of a GPU are made at once and stay. Throws Error where the driver has none, or the GPU too few
// multiprocessors. REQUIRES: place.parts > 1, and that GPU is the device in use.
const DevicePart& device_part(const DevicePlace& place);
StreamRef stream_of_part(const DevicePlace& place);

}  // namespace ingot::cuda
