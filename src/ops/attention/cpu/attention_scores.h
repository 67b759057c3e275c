// Attention's scores: queries by keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd.h"
#include "ops/attention/cpu/attention_simd.h"
#include "ops/kv_cache.h"

#if defined(__ARM_NEON)
#include "ops/attention/cpu/attention_lanes.h"
#endif

namespace ingot::cpu::INGOT_ISA {
namespace {

static_assert(kKeyGroup == kLanes);

// V vectors of keys of a block: vector v are kVecLanes lanes of a group, from lane `lane[v]` on.
struct KeyVectors {
  const std::byte* group[4];
  int64_t lane[4];
};

// R queries against V vectors of keys.
template <class S, int R, int V>
inline void score_tile(const float* const* q, const KeyVectors& keys, int64_t dim, float* out, int64_t stride) {
  using Type = typename S::Type;
  const Type* from[V];
  for (int v = 0; v < V; ++v) from[v] = at<Type>(keys.group[v]) + keys.lane[v];
  Vec sums[R][V] = {}, scale[V] = {};
  for (int64_t d = 0; d < dim;) {
    int64_t end = dim;
    if constexpr (kScaled<S>) {
      end = d + kQ8Block < dim ? d + kQ8Block : dim;
      for (int v = 0; v < V; ++v)
        scale[v] = load_f16(at<uint16_t>(keys.group[v] + dim * kKeyGroup) + d / kQ8Block * kKeyGroup + keys.lane[v]);
    }
    for (; d < end; ++d) {
      Vec k[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        k[v] = S::read(from[v] + d * kKeyGroup);
        if constexpr (kScaled<S>) k[v] *= scale[v];
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec a = broadcast(q[r][d]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] = fma(a, k[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(out + r * stride + v * kVecLanes, sums[r][v]);
  }
}

// At most kRows queries.
template <class S, int R, int V>
inline void score_rows(int64_t nq, const float* const* q, const KeyVectors& keys, int64_t dim, float* out,
                       int64_t stride) {
  if constexpr (R > 0) {
    if (nq == R) {
#if defined(__ARM_NEON)
      if constexpr (kLaneTile<S, R, V>)
        if (dim % 4 == 0) return score_lanes<S, R>(q, keys.group[0], dim, out, stride);
#endif
      score_tile<S, R, V>(q, keys, dim, out, stride);
    } else {
      score_rows<S, R - 1, V>(nq, q, keys, dim, out, stride);
    }
  }
}

// V vectors of keys stay in the L1 cache while all queries pass.
template <class S, int V>
void score_vectors(const float* const* q, int64_t nq, const KeyVectors& keys, int64_t dim, float* out, int64_t stride) {
  for (int64_t i = 0; i < nq; i += kRows)
    score_rows<S, kRows, V>(nq - i < kRows ? nq - i : kRows, q + i, keys, dim, out + i * stride, stride);
}

void scores(DType dtype, const float* const* q, int64_t nq, const std::byte* const* groups, int64_t n_groups,
            int64_t dim, float* out, int64_t stride) {
  const int64_t vectors = n_groups * kVecs;
  with_type(dtype, [&](auto stored) {
    using S = decltype(stored);
    for (int64_t v = 0; v < vectors; v += 4) {
      KeyVectors keys;
      // A vector too many repeats the last group, and its scores lie where no one looks.
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t group = (v + i) / kVecs;
        keys.group[i] = groups[group < n_groups ? group : n_groups - 1];
        keys.lane[i] = (v + i) % kVecs * kVecLanes;
      }
      if (vectors - v > 2) {
        score_vectors<S, 4>(q, nq, keys, dim, out + v * kVecLanes, stride);
      } else {
        score_vectors<S, 2>(q, nq, keys, dim, out + v * kVecLanes, stride);
      }
    }
  });
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
