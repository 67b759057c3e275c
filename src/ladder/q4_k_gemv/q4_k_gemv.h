// out[n] = the product of row n of a matrix in Q4_K and a vector in bf16, summed in f32: decoding one sequence with the
// most common format of four bits. Where gemv is limited by bytes alone, here each byte holds two values to unpack.
#pragma once

#include <memory>

#include "ladder/step.h"

namespace ingot {

namespace cuda {
struct PackedQ4K;
}

struct Q4KGemv {
  Weight weight;  // [N, K] Q4_K, K a multiple of 256
  Tensor x;       // [1, K] bf16
  Tensor out;     // [1, N] f32
  // What prepare() makes: the weight in the order that the last step reads.
  std::shared_ptr<std::shared_ptr<cuda::PackedQ4K>> packed = std::make_shared<std::shared_ptr<cuda::PackedQ4K>>();
  template <class F>
  void each(F&& f) {
    f.weight(weight);
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {.bytes = static_cast<double>(weight.bytes()) + s.bytes(x) + s.bytes(out),
            .flops = 2 * static_cast<double>(weight.rows) * static_cast<double>(weight.cols)};
  }
};

namespace ref {
void run(const Q4KGemv& op, Ctx& ctx);
}

namespace ladder {

// Encoded random values; few different rows repeat, since encoding is slow and no kernel can tell.
Weight random_q4_k(Operands& operands, int64_t rows, int64_t cols);

template <>
inline std::vector<LadderCase<Q4KGemv>> ladder_cases(Target target) {
  const bool small = target == Target::kEmulated;
  const int64_t rows = small ? 40 : 28672, cols = small ? 512 : 4096;
  return {{.size = {rows, cols}, .dtype = "q4_k", .limit = Limit::kRead, .make = [rows, cols](Operands& o) {
             return Q4KGemv{
                 .weight = random_q4_k(o, rows, cols), .x = o.tensor(1, cols, DType::kBF16), .out = o.tensor(1, rows)};
           }}};
}

template <>
void prepare(const Q4KGemv& op, cuda::Ctx& ctx);

}  // namespace ladder
}  // namespace ingot
