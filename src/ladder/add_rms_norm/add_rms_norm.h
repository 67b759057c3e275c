// The ladder of ops/add_rms_norm: sum = a + b, out = sum / sqrt(mean(sum²) + eps) · weight, over each row.
#pragma once

#include "ladder/step.h"
#include "ops/add_rms_norm/add_rms_norm.h"

namespace ingot::ladder {

template <>
inline std::vector<LadderCase<AddRmsNorm>> ladder_cases<AddRmsNorm>(Target target) {
  const int64_t rows = target == Target::kCuda ? 16384 : 16, cols = target == Target::kCuda ? 4096 : 64;
  return {{.size = {rows, cols}, .dtype = "bf16", .limit = Limit::kCopy, .make = [rows, cols](Operands& o) {
             return AddRmsNorm{.a = o.tensor(rows, cols, DType::kBF16),
                               .b = o.tensor(rows, cols, DType::kBF16),
                               .weight = o.weight(cols),
                               .sum = o.tensor(rows, cols, DType::kBF16),
                               .out = o.tensor(rows, cols, DType::kBF16),
                               .eps = 1e-5f};
           }}};
}

}  // namespace ingot::ladder
