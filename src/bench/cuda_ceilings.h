// What a CUDA device can do at most, measured: the limits that percentages name.
#pragma once

#include "ops/cuda/ctx.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

struct Ceilings {
  double read_gbs = 0;
  double copy_gbs = 0;     // bytes read and bytes written together
  double bf16_gflops = 0;  // of a large product by the library; 0 where there is none
};

// Takes some tens of milliseconds and 8 GiB of the device, or what is free. Waits for the stream.
Ceilings measure_ceilings(Blas* blas, StreamRef stream);

}  // namespace ingot::cuda
