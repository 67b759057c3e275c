// Which CUDA device: a GPU, or some of its multiprocessors with the memory of all.
#pragma once

namespace ingot::cuda {

// A GPU, or one of `parts` equal shares of its multiprocessors (green contexts): streams that a thread makes after
// use_device() run on these alone.
struct DevicePlace {
  int index = 0;
  int part = 0, parts = 1;
};

// As use_device(index). Throws Error also where the GPU cannot be cut so.
void use_device(const DevicePlace& place);
// The index of the device in use.
int device_in_use();

}  // namespace ingot::cuda
