// Which device computes.
#pragma once

#include <optional>
#include <string>

#include "engine/config.h"

namespace ingot {

// What "cuda" (device 0), "cuda:N", "cuda:N,M" and "cuda:N/PARTS" name; none for anything else.
std::optional<EngineDevice> parse_cuda(const std::string& device);
// Its first index; -1 for anything else.
int cuda_index(const std::string& device);

// The CUDA device to compute on, -1 for the CPU; of several the first. `device`: "cpu" or as above; empty: the best
// there is. `ref`: the reference kernels, which the CPU alone has. Throws Error where a named one is not there.
int choose_device(const std::string& device, bool ref = false);
// The same for work that has one device. Throws Error also where several are named.
int choose_one_device(const std::string& device, bool ref = false);
// The devices of `ranks` ranks: "cuda" is the first of them. Throws Error also where they are not as many.
EngineDevice choose_devices(const std::string& device, bool ref, int ranks);

}  // namespace ingot
