// What a CUDA device can do at most, measured: the limits that percentages name.
#pragma once

#include "bench/device.h"
#include "ops/cuda/ctx.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

// Takes some tens of milliseconds and 8 GiB of the device, or what is free. Waits for the stream.
DeviceCeilings measure_ceilings(Blas* blas, StreamRef stream);

}  // namespace ingot::cuda
