// The ladder of ops/layer_norm: out = (x - mean(x)) / sqrt(var(x) + eps) · weight + bias, over each row.
#pragma once

#include "ladder/step.h"
#include "ops/layer_norm/layer_norm.h"

namespace ingot::ladder {

template <>
inline std::vector<LadderCase<LayerNorm>> ladder_cases<LayerNorm>(Target target) {
  const int64_t n = target == Target::kCuda ? 16384 : target == Target::kCpu ? 4096 : 40;
  return {{.size = {n, n}, .limit = Limit::kCopy, .make = [n](Operands& o) {
             return LayerNorm{
                 .x = o.tensor(n, n), .weight = o.weight(n), .bias = o.weight(n), .out = o.tensor(n, n), .eps = 1e-5f};
           }}};
}

}  // namespace ingot::ladder
