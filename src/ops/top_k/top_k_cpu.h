// The row of TopK, which sampling uses too.
#pragma once

#include <cstdint>
#include <vector>

namespace ingot::cpu {

struct TopEntry {
  float value = 0;
  int32_t id = 0;
};

// The k largest of x[0, n), largest first; equal values by id, NaN last. `out` is overwritten; its memory
// is used again when it is large enough. REQUIRES: 0 <= k <= n.
void top_k_row(const float* x, int64_t n, int64_t k, std::vector<TopEntry>& out);

}  // namespace ingot::cpu
