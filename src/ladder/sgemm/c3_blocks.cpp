// A block of b, 128 x 512, stays in the cache while all rows of a pass: b comes from memory once for each thread.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

constexpr int64_t kBlockK = 128, kBlockN = 512;  // 256 KiB

void add_block(const Sgemm& op, int64_t m, int64_t k0, int64_t n0) {
  const int64_t k1 = std::min(op.a.cols, k0 + kBlockK), n1 = std::min(op.out.cols, n0 + kBlockN);
  float* out = op.out.f32(m);
  if (k0 == 0) std::fill(out + n0, out + n1, 0.0f);
  for (int64_t k = k0; k < k1; ++k) {
    const float a = op.a.f32(m)[k];
    const float* b = op.b.f32(k);
    for (int64_t n = n0; n < n1; ++n) out[n] = multiply_add(a, b[n], out[n]);
  }
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.out), 2 * op.a.cols * op.out.cols, [&](int64_t first, int64_t last) {
    for (int64_t n = 0; n < op.out.cols; n += kBlockN)
      for (int64_t k = 0; k < op.a.cols; k += kBlockK)
        for (int64_t m = first; m < last; ++m) add_block(op, m, k, n);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
