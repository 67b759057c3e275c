// What the float32 units of a CUDA device reach at most.
#pragma once

#include "tensor/cuda.h"

namespace ingot::cuda {

// GFLOP/s of nothing but multiply-adds on every multiprocessor, the best of five; 0 on the emulated device.
double measure_f32(StreamRef stream);

}  // namespace ingot::cuda
