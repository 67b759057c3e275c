// The kernels of i8mm whose instructions are in an order that was searched for, and the plain tiles beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_kernels.h"

namespace ingot::cpu {

// Both write row r of x by the 16 outputs of panel 0 to out[16 · r]. `expanded`: the panel after expand().
struct TilePair {
  using Fn = void (*)(const PackedWeight& weight, const std::byte* expanded, const XRow* x, int64_t rows, float* out);
  Fn ordered, plain;
};

extern const TilePair kSoloTiles;      // one row
extern const TilePair kPackedTiles;    // up to 8 rows
extern const TilePair kExpandedTiles;  // up to 6

}  // namespace ingot::cpu
