// Scales that lie beside 8-bit floats: how many rows and columns share one.
#pragma once

#include <cstdint>
#include <string>

namespace ingot {

// How many of `values` in a line share a scale where there are `blocks` of them. Blocks are whole but for the last: 128
// for 300 values in 3 blocks, found as the power of two that fits. Throws Error naming the scales where none does.
int64_t scale_block(const std::string& name, int64_t values, int64_t blocks);

}  // namespace ingot
