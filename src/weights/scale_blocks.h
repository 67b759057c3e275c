// Scales that lie beside the data, of 8-bit floats most of all: how many rows and columns share one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quant/format.h"

namespace ingot {

// How many of `values` in a line share a scale where there are `blocks` of them. Blocks are whole but for the last: 128
// for 300 values in 3 blocks, found as the power of two that fits. Throws Error naming the scales where none does.
int64_t scale_block(const std::string& name, int64_t values, int64_t blocks);

// Blocks have scales of their own: beside them kernels multiply with one for a whole matrix, and of NVFP4 alone. Throws
// Error naming the scales where `format` is of blocks and the matrix has another number of them, or one of `values`,
// those of all matrices, is not above zero and finite.
void check_scales(const std::string& name, Format format, int64_t of_matrix, std::span<const float> values);

}  // namespace ingot
