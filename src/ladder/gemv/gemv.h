// out[n] = the product of row n of a matrix and a vector, both bf16, summed in f32: what decoding one sequence is.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Gemv {
  Tensor weight;  // [N, K] bf16, rows one after another
  Tensor x;       // [1, K] bf16
  Tensor out;     // [1, N] f32
  template <class F>
  void each(F&& f) {
    f.in(weight);
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {.bytes = s.bytes(weight) + s.bytes(x) + s.bytes(out), .flops = s.bytes(weight)};
  }
};

namespace ref {
void run(const Gemv& op, Ctx& ctx);
}

namespace ladder {

template <>
inline std::vector<LadderCase<Gemv>> ladder_cases(Target target) {
  const bool small = target == Target::kEmulated;
  const int64_t rows = small ? 40 : 28672, cols = small ? 512 : 4096;
  return {{.size = {rows, cols}, .dtype = "bf16", .limit = Limit::kRead, .make = [rows, cols](Operands& o) {
             return Gemv{.weight = o.tensor(rows, cols, DType::kBF16),
                         .x = o.tensor(1, cols, DType::kBF16),
                         .out = o.tensor(1, rows)};
           }}};
}

}  // namespace ladder
}  // namespace ingot
