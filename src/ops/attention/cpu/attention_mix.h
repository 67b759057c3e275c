// Attention's outputs: weights by values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_simd.h"
#include "ops/attention/cpu/attention_softmax.h"

#if defined(__ARM_NEON)
#include "ops/attention/cpu/attention_lanes.h"
#endif

namespace ingot::cpu::INGOT_ISA {
namespace {

// D vectors of a value, from dimension d, a multiple of D · kVecLanes.
template <class S, int D>
inline void read_value(const std::byte* row, int64_t dim, int64_t d, Vec* out) {
  const auto* from = at<typename S::Type>(row) + d;
#pragma GCC unroll 4
  for (int e = 0; e < D; ++e) out[e] = S::read(from + e * kVecLanes);
  if constexpr (kScaled<S>) {
    constexpr int kPerScale = kQ8Block / kVecLanes < D ? kQ8Block / kVecLanes : D;
#pragma GCC unroll 4
    for (int e = 0; e < D; e += kPerScale) {
      const Vec scale = broadcast(scale_at(row + dim, d / kQ8Block + e / kPerScale));
#pragma GCC unroll 4
      for (int i = e; i < e + kPerScale; ++i) out[i] *= scale;
    }
  }
}

struct Mix {
  const float* weights;
  int64_t stride;
  const int32_t *begin, *end;
  const std::byte* const* values;
  int64_t step, dim;
  const float *keep, *add;
  float* acc;
};

// R queries over D vectors of each value, from dimension d. The keys that all of them see are one loop.
template <class S, int R, int D>
inline void mix_tile(const Mix& m, int64_t d) {
  int32_t low = m.begin[0], high = m.end[0];
  for (int r = 1; r < R; ++r) {
    low = m.begin[r] > low ? m.begin[r] : low;
    high = m.end[r] < high ? m.end[r] : high;
  }
  high = high < low ? low : high;
  Vec sums[R][D] = {}, value[D];
  const auto add_key = [&](int r, int64_t j) {
    const Vec a = broadcast(m.weights[r * m.stride + j]);
#pragma GCC unroll 4
    for (int e = 0; e < D; ++e) sums[r][e] = fma(a, value[e], sums[r][e]);
  };
  if constexpr (R > 1) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      for (int64_t j = m.begin[r]; j < (m.end[r] < low ? m.end[r] : low); ++j) {
        read_value<S, D>(m.values[j], m.dim, d, value);
        add_key(r, j);
      }
    }
  }
  int64_t shared = low;
#if defined(__ARM_NEON)
  if constexpr (kLaneTile<S, R, D>) {
    bool together = m.step != 0 && high - low >= 4;
    for (int r = 0; r < R; ++r) together = together && m.begin[r] == low;
    if (together) {
      const int64_t fours = (high - low) / 4;
      const std::byte* values = m.values[low] + d * static_cast<int64_t>(sizeof(typename S::Type));
      mix_lanes<S, R>(m.weights + low, m.stride, values, m.step, fours, sums);
      shared += 4 * fours;
    }
  }
#endif
  for (int64_t j = shared; j < high; ++j) {
    read_value<S, D>(m.values[j], m.dim, d, value);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_key(r, j);
  }
  if constexpr (R > 1) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      for (int64_t j = m.begin[r] > high ? m.begin[r] : high; j < m.end[r]; ++j) {
        read_value<S, D>(m.values[j], m.dim, d, value);
        add_key(r, j);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int e = 0; e < D; ++e) {
      float* to = m.acc + r * m.dim + d + e * kVecLanes;
      store(to, broadcast(m.keep[r]) * load(to) + broadcast(m.add[r]) * sums[r][e]);
    }
  }
}

// The dimensions after the last whole vector.
template <class S>
inline void mix_rest(const Mix& m, int64_t nq, int64_t first) {
  float value[kVecLanes];
  for (int64_t r = 0; r < nq; ++r) {
    float sums[kVecLanes] = {};
    for (int64_t j = m.begin[r]; j < m.end[r]; ++j) {
      typename S::Type padded[kVecLanes] = {};
      const auto* from = at<typename S::Type>(m.values[j]) + first;
      __builtin_memcpy(padded, from, static_cast<size_t>(m.dim - first) * sizeof(padded[0]));
      store(value, S::read(padded));
      float scale = 1;
      if constexpr (kScaled<S>) scale = scale_at(m.values[j] + m.dim, first / kQ8Block);
      for (int64_t d = first; d < m.dim; ++d)
        sums[d - first] = fma1(m.weights[r * m.stride + j], value[d - first] * scale, sums[d - first]);
    }
    for (int64_t d = first; d < m.dim; ++d) {
      float& to = m.acc[r * m.dim + d];
      to = m.keep[r] * to + m.add[r] * sums[d - first];
    }
  }
}

template <class S, int R>
inline void mix_rows(int64_t nq, const Mix& m) {
  if constexpr (R > 0) {
    if (nq != R) return mix_rows<S, R - 1>(nq, m);
    int64_t d = 0;
    for (; d + 4 * kVecLanes <= m.dim; d += 4 * kVecLanes) mix_tile<S, R, 4>(m, d);
    for (; d + kVecLanes <= m.dim; d += kVecLanes) mix_tile<S, R, 1>(m, d);
    if (d < m.dim) mix_rest<S>(m, R, d);
  }
}

void mix(DType dtype, const float* weights, int64_t stride, int64_t nq, const SeenRanges& seen,
         const std::byte* const* values, int64_t step, int64_t dim, const float* keep, const float* add, float* acc) {
  with_type(dtype, [&](auto stored) {
    for (int64_t i = 0; i < nq;) {
      int64_t n = 0;
      while (n < kRows && i + n < nq && seen.begin[i + n] < seen.end[i + n]) ++n;
      mix_rows<decltype(stored), kRows>(n, {weights + i * stride, stride, seen.begin + i, seen.end + i, values, step,
                                            dim, keep + i, add + i, acc + i * dim});
      i += n > 0 ? n : 1;
    }
  });
}

void merge(int64_t nq, const float* part_max, const float* part_sum, const float* part_acc, int64_t dim,
           const SoftmaxState& state, float* acc) {
  merge_sums(nq, part_max, part_sum, state);
  for (int64_t i = 0; i < nq; ++i, acc += dim, part_acc += dim) {
    if (part_max[i] == -__builtin_inff()) continue;  // sees nothing of the part
    const float keep = state.keep[i], add = state.add[i];
    for (int64_t d = 0; d < dim; ++d) acc[d] = keep * acc[d] + add * part_acc[d];
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
