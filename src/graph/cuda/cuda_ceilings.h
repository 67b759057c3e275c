// What a CUDA device can do at most, measured: the limits that percentages name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/ctx.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

struct Ceilings {
  double read_gbs = 0;
  double copy_gbs = 0;     // bytes read and bytes written together
  double bf16_gflops = 0;  // of a large product by the library; 0 where there is none
};

// Takes some tens of milliseconds and 2 GiB of the device, or what is free. Waits for the stream.
Ceilings measure_ceilings(Blas* blas, StreamRef stream);

// Keeps the device reading `from` for at least `seconds`, so that the host can give it work in advance: then the times
// between two kernels hold no launch that came late.
void keep_busy(const std::byte* from, int64_t bytes, double seconds, StreamRef stream);

}  // namespace ingot::cuda
