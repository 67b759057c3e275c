// Sub-blocks of a block of weights, one in each lane of a vector: how fit_block.cpp reads them.
#pragma once

#include <cstddef>

#include "quant/fit_vec.h"
#include "quant/lanes.h"

// Vectors are passed between inlined functions alone: no ABI is concerned.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ingot {
namespace {  // a set of instructions has its own

// The nearest integer within lo…hi, 0 being one; NaN becomes one of them, too.
INGOT_INLINE Vec round_within(Vec x, Vec lo, Vec hi) { return nearest_integer(least(most(x, lo), hi)); }

// Eight sub-blocks of `size` values, value i of each in x[i].
struct Lanes {
  size_t size;
  Vec x[32], weight[32];

  void load(const float* values, const float* weights, size_t sub_size) {
    size = sub_size;
    turn(values, x);
    turn(weights, weight);
  }

 private:
  // Four by four in registers: one value at a time takes as long as two of the search's passes.
  INGOT_INLINE void turn(const float* from, Vec* to) const {
    for (size_t i = 0; i < size; i += 4) {
      for (size_t l = 0; l < kLanes; l += 4) {
        Float4 row[4];
        for (size_t r = 0; r < 4; ++r) row[r] = load_lanes<Float4>(from + (l + r) * size + i);
        const Float4 low = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
                     high = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
        const Float4 low_next = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
                     high_next = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
        float* out = reinterpret_cast<float*>(to + i) + l;
        store_lanes(out, __builtin_shufflevector(low, low_next, 0, 1, 4, 5));
        store_lanes(out + kLanes, __builtin_shufflevector(low, low_next, 2, 3, 6, 7));
        store_lanes(out + 2 * kLanes, __builtin_shufflevector(high, high_next, 0, 1, 4, 5));
        store_lanes(out + 3 * kLanes, __builtin_shufflevector(high, high_next, 2, 3, 6, 7));
      }
    }
  }
};

}  // namespace
}  // namespace ingot
