// 6 x 16 sums stay in registers for the whole of K: ten values are loaded for 96 products, and no result on the way.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

constexpr int kRows = 6;

// R rows, 16 columns.
template <int R>
void tile(const Sgemm& op, int64_t m, int64_t n) {
  Vec sums[R][kVecs] = {};
  for (int64_t k = 0; k < op.a.cols; ++k) {
    Vec b[kVecs];
    for (int v = 0; v < kVecs; ++v) b[v] = load(op.b.f32(k) + n + v * kVecLanes);
    for (int r = 0; r < R; ++r) {
      const Vec a = broadcast(op.a.f32(m + r)[k]);
      for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(a, b[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kVecs; ++v) store(op.out.f32(m + r) + n + v * kVecLanes, sums[r][v]);
}

void one_sum(const Sgemm& op, int64_t m, int64_t n) {
  float sum = 0;
  for (int64_t k = 0; k < op.a.cols; ++k) sum = fma1(op.a.f32(m)[k], op.b.f32(k)[n], sum);
  op.out.f32(m)[n] = sum;
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.out), cols = op.out.cols;
  // Tiles of 16 columns are shared out: each thread reads its part of b once for every six rows.
  ctx.pool.run((cols + kLanes - 1) / kLanes, [&](int64_t i, int) {
    const int64_t n = i * kLanes;
    int64_t m = 0;
    if (n + kLanes <= cols) {
      for (; m + kRows <= rows; m += kRows) tile<kRows>(op, m, n);
      for (; m < rows; ++m) tile<1>(op, m, n);
    }
    for (; m < rows; ++m)
      for (int64_t c = n; c < cols; ++c) one_sum(op, m, c);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
