// Work that holds a CUDA device up while the host gives it more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda.h"

namespace ingot::cuda {

// Keeps the device reading `from` for at least `seconds`, so that the host can give it work in advance: then the times
// between two kernels hold no launch that came late.
void keep_busy(const std::byte* from, int64_t bytes, double seconds, StreamRef stream);

}  // namespace ingot::cuda
