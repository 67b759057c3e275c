#include "quant/gram.h"

#include <algorithm>

#include "base/check.h"
#include "quant/gram_bf16.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ingot {
namespace {

constexpr int64_t kDepth = 256;  // rows at a time: a block's two sides take 200 KB of a core's own cache
constexpr int64_t kSide = 96;    // columns of a block, which one thread adds at a time: a whole number of tiles

#if defined(__ARM_NEON)

constexpr int64_t kPanel = 4;                // columns that lie side by side when packed
constexpr int64_t kHeight = 8, kWidth = 12;  // of a tile: 24 of 32 registers hold sums

// sum[i][j] = Σ over rows of a[row][i] · b[row][j]; panels are `step` apart.
void tile(const float* a, const float* b, int64_t rows, int64_t step, float (*out)[kWidth]) {
  float32x4_t sum[kHeight][3] = {};
  const float *a1 = a + step, *b1 = b + step, *b2 = b + 2 * step;
  for (int64_t t = 0; t < rows; ++t, a += 4, a1 += 4, b += 4, b1 += 4, b2 += 4) {
    const float32x4_t x0 = vld1q_f32(a), x1 = vld1q_f32(a1);
    const float32x4_t y[3] = {vld1q_f32(b), vld1q_f32(b1), vld1q_f32(b2)};
    for (int j = 0; j < 3; ++j) {
      sum[0][j] = vfmaq_laneq_f32(sum[0][j], y[j], x0, 0);
      sum[1][j] = vfmaq_laneq_f32(sum[1][j], y[j], x0, 1);
      sum[2][j] = vfmaq_laneq_f32(sum[2][j], y[j], x0, 2);
      sum[3][j] = vfmaq_laneq_f32(sum[3][j], y[j], x0, 3);
      sum[4][j] = vfmaq_laneq_f32(sum[4][j], y[j], x1, 0);
      sum[5][j] = vfmaq_laneq_f32(sum[5][j], y[j], x1, 1);
      sum[6][j] = vfmaq_laneq_f32(sum[6][j], y[j], x1, 2);
      sum[7][j] = vfmaq_laneq_f32(sum[7][j], y[j], x1, 3);
    }
  }
  for (int64_t i = 0; i < kHeight; ++i)
    for (int64_t j = 0; j < 3; ++j) vst1q_f32(out[i] + 4 * j, sum[i][j]);
}

#else

constexpr int64_t kPanel = 16;
constexpr int64_t kHeight = 4, kWidth = 16;

// The same; four columns of `a` lie within one panel.
void plain_tile(const float* a, const float* b, int64_t rows, float (*out)[kWidth]) {
  typedef float Vec __attribute__((vector_size(16)));
  Vec sum[kHeight][2];
  for (int64_t half = 0; half < kWidth; half += 8) {  // 8 of 16 registers hold sums
    for (auto& row : sum) row[0] = row[1] = Vec{};
    for (int64_t t = 0; t < rows; ++t) {
      Vec y[2];
      __builtin_memcpy(y, b + t * kPanel + half, sizeof(y));
      for (int64_t i = 0; i < kHeight; ++i) {
        sum[i][0] += y[0] * a[t * kPanel + i];
        sum[i][1] += y[1] * a[t * kPanel + i];
      }
    }
    for (int64_t i = 0; i < kHeight; ++i) __builtin_memcpy(out[i] + half, sum[i], sizeof(sum[i]));
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void fma_tile(const float* a, const float* b, int64_t rows, float (*out)[kWidth]) {
  __m256 sum[kHeight][2];
  for (auto& row : sum) row[0] = row[1] = _mm256_setzero_ps();
  for (int64_t t = 0; t < rows; ++t, a += kPanel, b += kPanel) {
    const __m256 y0 = _mm256_loadu_ps(b), y1 = _mm256_loadu_ps(b + 8);
    for (int64_t i = 0; i < kHeight; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i);
      sum[i][0] = _mm256_fmadd_ps(x, y0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(x, y1, sum[i][1]);
    }
  }
  for (int64_t i = 0; i < kHeight; ++i) {
    _mm256_storeu_ps(out[i], sum[i][0]);
    _mm256_storeu_ps(out[i] + 8, sum[i][1]);
  }
}
#endif

void tile(const float* a, const float* b, int64_t rows, int64_t, float (*out)[kWidth]) {
#if defined(__x86_64__)
  static const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma) return fma_tile(a, b, rows, out);
#endif
  plain_tile(a, b, rows, out);
}

#endif

static_assert(kSide % kHeight == 0 && kSide % kWidth == 0 && kSide % kPanel == 0);
static_assert(kSide % kBf16Height == 0 && kSide % kBf16Width == 0);

}  // namespace

Gram::Gram(int64_t cols)
    : cols_(cols), padded_((cols + kSide - 1) / kSide * kSide), sums_(static_cast<size_t>(cols * cols)) {
  CHECK(cols > 0, "{} columns", cols);
}

void Gram::add(const float* x, int64_t rows, int64_t stride, ThreadPool& pool) {
  for (int64_t t = 0; t < rows; t += kDepth) add_part(x + t * stride, std::min(kDepth, rows - t), stride, pool);
  rows_ += rows;
}

void Gram::add_part(const float* x, int64_t rows, int64_t stride, ThreadPool& pool) {
  if (multiplies_bf16()) {
    packed_.resize(static_cast<size_t>(padded_ * bf16_column_floats(rows)));
    pool.run(padded_ / 4, [&](int64_t n, int) { pack_bf16(x, rows, stride, 4 * n, cols_, packed_.data()); });
  } else {
    packed_.resize(static_cast<size_t>(padded_ * rows));
    pool.run(padded_ / kPanel, [&](int64_t panel, int) { pack(x, rows, stride, panel); });
  }
  const int64_t sides = padded_ / kSide;
  const auto add_block = [&](int64_t n, int) {
    int64_t i = 0;  // block n of the upper triangle, row by row
    while (n >= sides - i) n -= sides - i++;
    if (multiplies_bf16()) {
      const int64_t column = bf16_column_floats(rows);
      add_tiles<kBf16Height, kBf16Width>(i * kSide, (i + n) * kSide, [&](int64_t a, int64_t b, auto* sum) {
        tile_bf16(packed_.data() + a * column, packed_.data() + b * column, rows, sum);
      });
    } else {
      const int64_t step = rows * kPanel;
      const auto at = [&](int64_t k) { return packed_.data() + k / kPanel * step + k % kPanel; };
      add_tiles<kHeight, kWidth>(i * kSide, (i + n) * kSide,
                                 [&](int64_t a, int64_t b, auto* sum) { tile(at(a), at(b), rows, step, sum); });
    }
  };
  pool.run(sides * (sides + 1) / 2, add_block);
}

void Gram::pack(const float* x, int64_t rows, int64_t stride, int64_t panel) {
  float* out = packed_.data() + panel * rows * kPanel;
  const int64_t first = panel * kPanel, count = std::clamp<int64_t>(cols_ - first, 0, kPanel);
  for (int64_t t = 0; t < rows; ++t, out += kPanel) {
    for (int64_t c = 0; c < count; ++c) out[c] = x[t * stride + first + c];
    for (int64_t c = count; c < kPanel; ++c) out[c] = 0;
  }
}

template <int64_t kTall, int64_t kWide, class Product>
void Gram::add_tiles(int64_t i_begin, int64_t j_begin, const Product& product) {
  alignas(64) float sum[kTall][kWide];
  for (int64_t j = j_begin; j < std::min(cols_, j_begin + kSide); j += kWide) {
    const int64_t i_end = std::min({cols_, i_begin + kSide, j + kWide});
    for (int64_t i = i_begin; i < i_end; i += kTall) {
      product(i, j, sum);
      for (int64_t r = i; r < std::min(i_end, i + kTall); ++r)
        for (int64_t c = std::max(r, j); c < std::min(cols_, j + kWide); ++c)
          sums_[static_cast<size_t>(r * cols_ + c)] += sum[r - i][c - j];
    }
  }
}

}  // namespace ingot
