// Several CUDA devices of one machine: which GPU a number means, and one that reaches the memory of another. Behind it
// is linked what is behind cuda.h.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/cuda.h"

namespace ingot::cuda {

// "0000:0f:00.0", in lower case; empty where it has none. Makes no context. REQUIRES: 0 <= index < device_count().
std::string device_bus_id(int index);
// Whether the driver says that `from` can read and write the memory of `to`; itself always.
bool reaches_peer(int from, int to);
// From now on kernels of the device in use may. Throws Error where the driver refuses. REQUIRES: reaches_peer().
void reach_peer(int to);
// By whichever way the driver has.
void copy_to_peer(void* to, int to_device, const void* from, int from_device, int64_t bytes, StreamRef stream);

}  // namespace ingot::cuda
