// Values turned around into a group of keys: over a latent cache they are the same numbers.
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/kv_cache.h"

namespace ingot::cpu {

// 16 rows of `dim` floats become [dim][16].
inline void turn_group(const float* rows, int64_t dim, float* out) {
  typedef float Four __attribute__((vector_size(16)));
  int64_t d = 0;
  for (; d + 4 <= dim; d += 4) {
    for (int64_t r = 0; r < kKeyGroup; r += 4) {
      Four x[4];
      for (int j = 0; j < 4; ++j) std::memcpy(&x[j], rows + (r + j) * dim + d, sizeof(Four));
      const Four a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
      const Four c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5),
                 e = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
      const Four turned[4] = {__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
                              __builtin_shufflevector(b, e, 0, 1, 4, 5), __builtin_shufflevector(b, e, 2, 3, 6, 7)};
      for (int j = 0; j < 4; ++j) std::memcpy(out + (d + j) * kKeyGroup + r, &turned[j], sizeof(Four));
    }
  }
  for (; d < dim; ++d)
    for (int64_t r = 0; r < kKeyGroup; ++r) out[d * kKeyGroup + r] = rows[r * dim + d];
}

}  // namespace ingot::cpu
