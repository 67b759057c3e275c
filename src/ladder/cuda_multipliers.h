// What the multipliers of a CUDA device reach at most: the best of five runs of nothing else, on every multiprocessor.
#pragma once

#include "tensor/cuda.h"

namespace ingot::cuda {

// GFLOP/s; 0 on the emulated device.
double measure_f32(StreamRef stream);
// Of e4m3 by warpgroups, on random operands in shared memory: zeros would draw less power, and the clock would rise. 0
// where the device is not of compute capability 9.0.
double measure_fp8(StreamRef stream);

}  // namespace ingot::cuda
