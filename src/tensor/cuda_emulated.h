// The seam between cuda_emulated.cpp and the emulator of kernels.
#pragma once

#include <functional>

#include "tensor/cuda.h"

namespace ingot::cuda {

// Does the work now, or keeps it where the stream is being recorded. With INGOT_EMULATED_LATE it is done when its
// thread waits for it and no sooner, as on a device that is far behind: what the host overwrites too early is read too
// late.
void emulated_work(StreamRef stream, std::function<void()> work);

}  // namespace ingot::cuda
