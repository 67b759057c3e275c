// How much memory blocks of a grid have to hand each other sums (DeviceCtx::handed).
#pragma once

#include "cuda/device_ctx.h"

namespace ingot::cuda {

// Bytes for each multiprocessor: what most kernels take, and twice that for the sums of 128 x 128 outputs.
inline constexpr int64_t kHandedRoom = 2 * kHandedBytes;

}  // namespace ingot::cuda
