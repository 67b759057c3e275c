// Which device computes.
#pragma once

#include <string>

namespace ingot {

// The index of "cuda" (0) and "cuda:N"; -1 for anything else.
int cuda_index(const std::string& device);

// The CUDA device to compute on, -1 for the CPU. `device`: "cpu", "cuda" or "cuda:N"; empty: the best there is. `ref`:
// the reference kernels, which the CPU alone has. Throws Error where the named one is not there.
int choose_device(const std::string& device, bool ref = false);

}  // namespace ingot
