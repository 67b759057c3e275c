// The body of attention_kernels_<set>.cpp, which defines INGOT_KERNELS, the name of the table made here, and
// INGOT_ISA_NAME, the set's. All else has internal linkage, see simd.h.

#include <cstddef>
#include <cstdint>

#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_simd.h"
#include "ops/cpu_math.h"
#include "ops/simd.h"

namespace ingot::cpu {
namespace {

// Queries × 4 vectors of sums in registers: 24 of 32, or 12 of 16. NEON broadcasts from a register, so that a tile of 6
// would keep two of its sums in memory.
#if defined(__AVX512F__)
constexpr int kRows = 6;
#elif defined(__ARM_NEON)
constexpr int kRows = 4;
#else
constexpr int kRows = 3;
#endif

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

#if defined(__ARM_NEON)
#include "ops/attention/cpu/attention_lanes.h"
#endif

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

// V vectors of keys stay in the first-level cache while all queries pass.
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

// exp of x <= 0; 0 below -87, where it would be below 2^-125.
inline Vec exp_weight(Vec x) {
  constexpr float kRound = 12582912.0f;  // see exp_f32()
  const Vec shifted = fma(x, broadcast(1.44269504f), broadcast(kRound));
  const Vec n = shifted - broadcast(kRound);
  const Vec r = fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x));
  Vec p = broadcast(1.99160131e-4f);
  p = fma(p, r, broadcast(1.39464391e-3f));
  p = fma(p, r, broadcast(8.33326858e-3f));
  p = fma(p, r, broadcast(4.16662656e-2f));
  p = fma(p, r, broadcast(1.66666672e-1f));
  p = fma(p, r, broadcast(0.5f));
  p = fma(r * r, p, r) + broadcast(1.0f);
  const IVec power = ((IVec)shifted - (__builtin_bit_cast(int32_t, kRound) - 127)) << 23;
#if defined(__ARM_NEON)
  // Written out, since g++ 12 makes three instructions of a comparison.
  return (Vec)vbicq_u32((uint32x4_t)(p * (Vec)power), vcltq_f32((float32x4_t)x, vdupq_n_f32(-87.0f)));
#else
  return x < broadcast(-87.0f) ? Vec{} : p * (Vec)power;
#endif
}

// The larger of each lane; b where a is no number.
template <class V>
inline V larger(V a, V b) {
#if defined(__ARM_NEON)
  return (V)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
  return a > b ? a : b;
#endif
}

// The largest lanes of four, as sum4() adds them.
inline Vec4 max4(const Vec (*v)[kVecs]) {
  const auto fold_max = [](const Vec* one) {
#if defined(__AVX512F__)
    const __m256 half = larger<__m256>(__builtin_shufflevector(one[0], one[0], 0, 1, 2, 3, 4, 5, 6, 7),
                                       __builtin_shufflevector(one[0], one[0], 8, 9, 10, 11, 12, 13, 14, 15));
#elif defined(__AVX2__)
    const Vec half = larger(one[0], one[1]);
#endif
#if defined(__AVX2__)
    return larger<Vec4>(__builtin_shufflevector(half, half, 0, 1, 2, 3),
                        __builtin_shufflevector(half, half, 4, 5, 6, 7));
#else
    return larger(larger(one[0], one[2]), larger(one[1], one[3]));
#endif
  };
  const Vec4 a = fold_max(v[0]), b = fold_max(v[1]), c = fold_max(v[2]), d = fold_max(v[3]);
  const Vec4 ab = larger<Vec4>(__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7));
  const Vec4 cd = larger<Vec4>(__builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7));
  return larger<Vec4>(__builtin_shufflevector(ab, cd, 0, 2, 4, 6), __builtin_shufflevector(ab, cd, 1, 3, 5, 7));
}

// Merges maxima and sums of nq queries into the state.
inline void merge_sums(int64_t nq, const float* part_max, const float* part_sum, const SoftmaxState& state) {
  for (int64_t i = 0; i < nq; ++i) {
    const float before = state.max[i], part = part_max[i], part_sums = part_sum[i];
    const float max = part > before ? part : before;
    // Equal maxima count 1, those of nothing (-inf) too.
    const float keep = before == max ? 1.0f : exp_f32(before - max);
    const float add = part == max ? 1.0f : exp_f32(part - max);
    state.max[i] = max;
    state.sum[i] = state.sum[i] * keep + part_sums * add;
    state.keep[i] = keep;
    state.add[i] = add;
  }
}

// What mask() leaves to multiply. A scale that is not above 0 would turn -inf, and the order of the products.
inline float factor_of(float scale, float softcap) { return softcap > 0 || !(scale > 0) ? 1.0f : scale; }

// The scores [from, to) of a query, ready for the softmax but for factor_of(): what is not seen is -inf.
inline void mask(float* row, int64_t from, int64_t begin, int64_t end, int64_t to, float scale, float softcap) {
  if (softcap > 0) {
    for (int64_t j = from; j < to; ++j) row[j] = softcap * tanh_f32(row[j] * scale / softcap);
  } else if (!(scale > 0)) {
    for (int64_t j = from; j < to; ++j) row[j] *= scale;
  }
  for (int64_t j = from; j < begin; ++j) row[j] = -__builtin_inff();
  for (int64_t j = end; j < to; ++j) row[j] = -__builtin_inff();
}

// The largest of the scores [from, to) of a query, lane by lane. Sums and maxima of one query at a time stay in
// registers.
inline void find_largest(const float* row, int64_t from, int64_t to, Vec factor, Vec* largest) {
  Vec found[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) found[v] = broadcast(-__builtin_inff());
  for (int64_t j = from; j < to; j += kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) found[v] = larger(load(row + j + v * kVecLanes) * factor, found[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) largest[v] = found[v];
}

// The scores become weights; their sums, lane by lane.
inline void make_weights(float* row, int64_t from, int64_t to, Vec factor, Vec top, Vec* sums) {
  Vec added[kVecs] = {};
  for (int64_t j = from; j < to; j += kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      float* at_j = row + j + v * kVecLanes;
      const Vec weight = exp_weight(load(at_j) * factor - top);
      store(at_j, weight);
      added[v] += weight;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) sums[v] = added[v];
}

void weigh(float* scores, int64_t stride, int64_t nq, const SeenRanges& seen, int64_t from, int64_t to, float scale,
           float softcap, const SoftmaxState& state) {
  const Vec factor = broadcast(factor_of(scale, softcap));
  for (int64_t i = 0; i < nq; i += 4) {
    const int64_t n = nq - i < 4 ? nq - i : 4;
    Vec largest[4][kVecs], sums[4][kVecs] = {};
    for (int64_t q = 0; q < 4; ++q)
      for (int v = 0; v < kVecs; ++v) largest[q][v] = broadcast(-__builtin_inff());
    const auto sees = [&](int64_t q) { return seen.begin[i + q] < seen.end[i + q]; };
    for (int64_t q = 0; q < n; ++q) {
      if (!sees(q)) continue;
      float* row = scores + (i + q) * stride;
      mask(row, from, seen.begin[i + q], seen.end[i + q], to, scale, softcap);
      find_largest(row, from, to, factor, largest[q]);
    }
    const Vec4 max = max4(largest);
    for (int64_t q = 0; q < n; ++q)
      if (sees(q)) make_weights(scores + (i + q) * stride, from, to, factor, broadcast(max[q]), sums[q]);
    const Vec4 sum = sum4(sums);
    for (int64_t q = 0; q < n; ++q) {
      state.keep[i + q] = max[q];
      state.add[i + q] = sum[q];
    }
  }
  merge_sums(nq, state.keep, state.add, state);
}

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

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include "ops/attention/cpu/attention_bf16.h"
constexpr const Bf16Products* kProducts = &kBf16Products;
#else
constexpr const Bf16Products* kProducts = nullptr;
#endif

}  // namespace

extern const AttentionKernels INGOT_KERNELS;
const AttentionKernels INGOT_KERNELS = {INGOT_ISA_NAME, store_key, store_value, open_keys, open_values, 2 * kRows,
                                        scores,         weigh,     mix,         merge,     kProducts};

}  // namespace ingot::cpu
