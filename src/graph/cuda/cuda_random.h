// Random weights made on the device: the values that weights/random_values.h gives for their key.
#pragma once

#include "tensor/cuda.h"
#include "weights/source.h"

namespace ingot::cuda {

// REQUIRES: weight.random.
void fill_random(const Weight& weight, std::byte* to, StreamRef stream);

}  // namespace ingot::cuda
