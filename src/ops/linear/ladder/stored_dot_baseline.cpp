#define INGOT_ISA baseline
#include "ops/linear/ladder/stored_dot.h"

namespace ingot::cpu {

float stored_dot_baseline(const std::byte* row, const XRow& x, int64_t cols);
float stored_dot_baseline(const std::byte* row, const XRow& x, int64_t cols) {
  return baseline::stored_dot(row, x, cols);
}

}  // namespace ingot::cpu
