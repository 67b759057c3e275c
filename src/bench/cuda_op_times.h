// Operators alone on a CUDA device, timed as the engine runs them: recorded, one behind the other, on operands that
// pass through three times the L2 cache. The sizes are those of an 8B model (4096 columns, 32 heads of 128, 8
// KV heads) in BF16; on the emulated device small ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/device.h"
#include "matmul/cuda/cuda_blas.h"

namespace ingot::cuda {

using OpTime = DeviceOpTime;
using TellTime = std::function<void(const OpTime&)>;  // may throw to stop

// Tells each time when it is there. Names select operators, all where there are none. Throws
// Error for a name that no operator has, and where the device's memory does not suffice. Of the device in use; `blas`
// may be null.
void time_ops(const std::vector<std::string>& names, Blas* blas, const TellTime& tell);

}  // namespace ingot::cuda
