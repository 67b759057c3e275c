// Both matrices are packed in the order in which a tile reads them, block by block: no line is fetched in part.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

constexpr int kRows = 6;
constexpr int64_t kBlockK = kSgemmBlockK, kBlockN = kSgemmBlockN;

// Columns of b [k0, k0 + depth) x [n0, n0 + 16) side by side, zeros behind the last.
void pack_b(const Sgemm& op, int64_t k0, int64_t depth, int64_t n0, float* to) {
  const int64_t count = std::min<int64_t>(kLanes, op.out.cols - n0);
  for (int64_t k = 0; k < depth; ++k, to += kLanes) {
    const float* from = op.b.f32(k0 + k) + n0;
    if (count == kLanes) {
      for (int v = 0; v < kVecs; ++v) store(to + v * kVecLanes, load(from + v * kVecLanes));
    } else {
      for (int64_t c = 0; c < kLanes; ++c) to[c] = c < count ? from[c] : 0.0f;
    }
  }
}

// Six rows of a turned, zeros behind the last.
void pack_a(const Sgemm& op, int64_t rows, int64_t m, int64_t k0, int64_t depth, float* to) {
  for (int r = 0; r < kRows; ++r) {
    const float* from = m + r < rows ? op.a.f32(m + r) + k0 : nullptr;
    for (int64_t k = 0; k < depth; ++k) to[k * kRows + r] = from == nullptr ? 0.0f : from[k];
  }
}

using Sums = Vec[kRows][kVecs];

#if defined(__ARM_NEON)
// A lane of a register is a factor: a broadcast costs nothing.
template <int R>
inline void add_row(Sums& sums, const Vec* b, float32x4_t a) {
  for (int v = 0; v < kVecs; ++v)
    sums[R][v] = (Vec)vfmaq_laneq_f32((float32x4_t)sums[R][v], (float32x4_t)b[v], a, R % 4);
}
#endif

inline void add_step(Sums& sums, const float* a, const float* packed_b) {
  Vec b[kVecs];
  for (int v = 0; v < kVecs; ++v) b[v] = load(packed_b + v * kVecLanes);
#if defined(__ARM_NEON)
  const float32x4_t low = vld1q_f32(a), high = vcombine_f32(vld1_f32(a + 4), vdup_n_f32(0));
  add_row<0>(sums, b, low);
  add_row<1>(sums, b, low);
  add_row<2>(sums, b, low);
  add_row<3>(sums, b, low);
  add_row<4>(sums, b, high);
  add_row<5>(sums, b, high);
#else
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const Vec factor = broadcast(a[r]);
    for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(factor, b[v], sums[r][v]);
  }
#endif
}

// out[0, 6) x [0, 16), `stride` apart: added to what an earlier block of K left there, if `add`.
void tile(const float* a, const float* b, int64_t depth, bool add, float* out, int64_t stride) {
  Sums sums = {};
  for (int64_t k = 0; k < depth; ++k, a += kRows, b += kLanes) add_step(sums, a, b);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      float* to = out + r * stride + v * kVecLanes;
      store(to, add ? load(to) + sums[r][v] : sums[r][v]);
    }
  }
}

// A tile at the edge goes through a whole one.
void edge_tile(const float* a, const float* b, int64_t depth, bool add, const Tensor& out, int64_t rows, int64_t m,
               int64_t n) {
  float whole[kRows * kLanes];
  tile(a, b, depth, false, whole, kLanes);
  for (int64_t r = 0; r < kRows && m + r < rows; ++r) {
    for (int64_t c = 0; c < kLanes && n + c < out.cols; ++c) {
      float& to = out.f32(m + r)[n + c];
      to = add ? to + whole[r * kLanes + c] : whole[r * kLanes + c];
    }
  }
}

void block(const Sgemm& op, int64_t rows, int64_t k0, int64_t n0, float* scratch) {
  const int64_t depth = std::min(kBlockK, op.a.cols - k0), n1 = std::min(op.out.cols, n0 + kBlockN);
  float *packed_b = scratch, *packed_a = scratch + kBlockK * kBlockN;
  for (int64_t n = n0; n < n1; n += kLanes) pack_b(op, k0, depth, n, packed_b + (n - n0) * kBlockK);
  for (int64_t m = 0; m < rows; m += kRows) {
    pack_a(op, rows, m, k0, depth, packed_a);
    for (int64_t n = n0; n < n1; n += kLanes) {
      const float* b = packed_b + (n - n0) * kBlockK;
      if (m + kRows <= rows && n + kLanes <= n1) {
        tile(packed_a, b, depth, k0 > 0, op.out.f32(m) + n, op.out.stride);
      } else {
        edge_tile(packed_a, b, depth, k0 > 0, op.out, rows, m, n);
      }
    }
  }
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.out);
  ctx.pool.run((op.out.cols + kBlockN - 1) / kBlockN, [&](int64_t i, int thread) {
    for (int64_t k = 0; k < op.a.cols; k += kBlockK) block(op, rows, k, i * kBlockN, ctx.scratch_of<float>(thread));
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
