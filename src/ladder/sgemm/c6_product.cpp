// The product's kernel: tiles as large as the registers, parts of K in the L1 cache, each matrix packed once.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"
#include "matmul/cpu/outer_dots.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

// Columns [n0, n0 + n) of b as the product's pack() makes them of a weight's rows.
void pack_columns(const Sgemm& op, int64_t n0, int64_t n, float* panels) {
  const int64_t depth = op.a.cols, steps = outer_steps(depth);
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = op.b.f32(k) + n0;
    float* to = panels + (kLaneOrder[k % kLanes] * steps + k / kLanes) * kOuterCols;
    for (int64_t c = 0; c < n; c += kOuterCols, to += outer_panel(depth)) {
      if (c + kOuterCols <= n) {
        for (int v = 0; v < kOuterCols; v += kVecLanes) store(to + v, load(from + c + v));
      } else {
        for (int64_t i = 0; i < kOuterCols; ++i) to[i] = c + i < n ? from[c + i] : 0.0f;
      }
    }
  }
}

// One thread's part: panels of some columns, which all tiles of a meet.
void block(const Sgemm& op, int64_t rows, int64_t n0, const float* tiles, float* scratch) {
  const int64_t depth = op.a.cols, n = std::min(kSgemmBlockN, op.out.cols - n0);
  float* room = scratch + kSgemmBlockN * sgemm_lanes(depth);
  float* sums = room + outer_room(kSgemmPass, kSgemmBlockN);
  pack_columns(op, n0, n, scratch);
  for (int64_t m = 0; m < rows; m += kSgemmPass) {
    const int64_t some = std::min(kSgemmPass, rows - m);
    const float* x = tiles + m / kOuterRows * outer_tile_floats(depth);
    if (n % kOuterCols == 0) {
      dots_outer(x, some, scratch, n, depth, op.out.f32(m) + n0, op.out.stride, room);
      continue;
    }
    dots_outer(x, some, scratch, n, depth, sums, kSgemmBlockN, room);
    for (int64_t r = 0; r < some; ++r)
      __builtin_memcpy(op.out.f32(m + r) + n0, sums + r * kSgemmBlockN, static_cast<size_t>(n) * sizeof(float));
  }
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.out);
  float* tiles = reinterpret_cast<float*>(ctx.shared);
  ctx.pool.run((rows + kOuterRows - 1) / kOuterRows, [&](int64_t i, int) {
    const float* x[kOuterRows];
    const int64_t m = i * kOuterRows, n = std::min<int64_t>(kOuterRows, rows - m);
    for (int64_t r = 0; r < n; ++r) x[r] = op.a.f32(m + r);
    pack_outer_x(x, n, op.a.cols, tiles + i * outer_tile_floats(op.a.cols));
  });
  ctx.pool.run((op.out.cols + kSgemmBlockN - 1) / kSgemmBlockN,
               [&](int64_t i, int thread) { block(op, rows, i * kSgemmBlockN, tiles, ctx.scratch_of<float>(thread)); });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
