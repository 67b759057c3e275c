// out = x · weightᵀ, the weight in Q4_0: the ladder of the linear op's CPU kernels. Its last steps call what serves.
#pragma once

#include <memory>

#include "ladder/q4_linear/q4_operands.h"
#include "ladder/step.h"

namespace ingot {

struct Q4Linear {
  Tensor x;       // [T, K] f32
  Weight weight;  // [N, K] Q4_0, N a multiple of 16 or not
  Tensor out;     // [T, N] f32
  // The same x and weight in the other forms that some step reads.
  std::shared_ptr<const cpu::Q4Operands> operands = nullptr;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.weight(weight);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    const double rows = static_cast<double>(s.rows(x.rows));
    return {static_cast<double>(weight.bytes()) + s.bytes(x) + s.bytes(out),
            2 * rows * static_cast<double>(weight.rows) * static_cast<double>(weight.cols)};
  }
};

namespace ref {
void run(const Q4Linear& op, Ctx& ctx);
}

namespace cpu {

inline constexpr int64_t kQ4Part = 64;  // outputs of a task

// body(first, count, scratch) for the outputs [first, first + count) of each part, on all threads.
template <class F>
void for_q4_parts(const Q4Linear& op, Ctx& ctx, const F& body) {
  const int64_t n = op.weight.rows;
  ctx.pool.run((n + kQ4Part - 1) / kQ4Part, [&](int64_t i, int thread) {
    const int64_t first = i * kQ4Part;
    body(first, first + kQ4Part < n ? kQ4Part : n - first, ctx.scratch_of<std::byte>(thread));
  });
}

}  // namespace cpu

namespace ladder {

// 2048 x 2048, 1 row and 64: a step of decode and a short prompt. On the CPU alone.
template <>
std::vector<LadderCase<Q4Linear>> ladder_cases<Q4Linear>(Target target);

template <>
inline int64_t scratch_bytes<Q4Linear>(const Q4Linear& op) {
  return cpu::q4_scratch_bytes(*op.operands, cpu::kQ4Part);
}

}  // namespace ladder
}  // namespace ingot
