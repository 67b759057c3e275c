#define INGOT_ISA avx2
#include "ops/linear/ladder/stored_dot.h"

namespace ingot::cpu {

float stored_dot_avx2(const std::byte* row, const XRow& x, int64_t cols);
float stored_dot_avx2(const std::byte* row, const XRow& x, int64_t cols) { return avx2::stored_dot(row, x, cols); }

}  // namespace ingot::cpu
