// Attention's softmax: scores become weights, and the parts of a softmax one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/cpu_math.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_simd.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

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

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
