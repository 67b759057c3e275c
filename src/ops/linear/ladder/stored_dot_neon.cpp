#define INGOT_ISA neon
#include "ops/linear/ladder/stored_dot.h"

namespace ingot::cpu {

float stored_dot_neon(const std::byte* row, const XRow& x, int64_t cols);
float stored_dot_neon(const std::byte* row, const XRow& x, int64_t cols) { return neon::stored_dot(row, x, cols); }

}  // namespace ingot::cpu
