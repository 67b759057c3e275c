// The ladder of ops/softmax: out = exp(x - max(x)) / sum, over each row.
#pragma once

#include "ladder/step.h"
#include "ops/softmax/softmax.h"

namespace ingot::ladder {

template <>
inline std::vector<LadderCase<Softmax>> ladder_cases<Softmax>(Target target) {
  const int64_t n = target == Target::kCuda ? 16384 : target == Target::kCpu ? 4096 : 40;
  return {{.size = {n, n}, .limit = Limit::kCopy, .make = [n](Operands& o) {
             return Softmax{.x = o.tensor(n, n), .out = o.tensor(n, n)};
           }}};
}

}  // namespace ingot::ladder
