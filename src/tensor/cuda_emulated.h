// The seam between cuda_emulated.cpp and the emulator of kernels.
#pragma once

#include <functional>

#include "tensor/cuda.h"

namespace ingot::cuda {

// Does the work now, or keeps it where the stream is being recorded.
void emulated_work(StreamRef stream, std::function<void()> work);

}  // namespace ingot::cuda
