// The vectors of the instruction set INGOT_ISA (cpu/isa_source.h). Sixteen lanes whatever the set: a register of 16,
// two of 8 or four of 4, so that sets with fma give the same bits.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "cpu/isa_source.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

constexpr int kLanes = 16;  // over K, of every sum

typedef float Vec4 __attribute__((vector_size(16)));

#if defined(__AVX512F__)
typedef float Vec __attribute__((vector_size(64)));
constexpr int kTileRows = 6, kTileCols = 4, kSoloCols = 8;  // 24 of 32 registers hold sums
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#elif defined(__AVX2__)
typedef float Vec __attribute__((vector_size(32)));
constexpr int kTileRows = 3, kTileCols = 2, kSoloCols = 4;  // 12 of 16 registers hold sums
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#elif defined(__ARM_NEON)
typedef Vec4 Vec;
constexpr int kTileRows = 3, kTileCols = 2, kSoloCols = 4;  // 24 of 32 registers hold sums
inline Vec fma(Vec a, Vec b, Vec c) { return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
typedef Vec4 Vec;
constexpr int kTileRows = 3, kTileCols = 1, kSoloCols = 2;  // 12 of 16 registers hold sums
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline float fma1(float a, float b, float c) { return a * b + c; }
#endif

constexpr int kVecLanes = static_cast<int>(sizeof(Vec) / sizeof(float));
constexpr int kVecs = kLanes / kVecLanes;  // registers of one sum

// Of any alignment.
inline Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
#if defined(__ARM_NEON)
inline void store(float* p, Vec v) { vst1q_f32(p, (float32x4_t)v); }  // g++ 12 takes a memcpy through general registers
#else
inline void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(v)); }
#endif
inline Vec broadcast(float x) { return x - Vec{}; }  // x - 0 is x, of -0 too

// The lane tree: i + (i + 8), then i + (i + 4): four lanes are left of a sum's sixteen. Shuffles are the
// compiler's own: the AVX-512 intrinsics for them warn under g++ 12.
#if defined(__AVX2__)
inline Vec4 fold8(__m256 v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
#endif
inline Vec4 fold(const Vec* v) {
#if defined(__AVX512F__)
  return fold8(__builtin_shufflevector(v[0], v[0], 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(v[0], v[0], 8, 9, 10, 11, 12, 13, 14, 15));
#elif defined(__AVX2__)
  return fold8(v[0] + v[1]);
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// The rest of the tree for four sums at once: i + (i + 2), then the two that are left.
inline Vec4 finish(Vec4 a, Vec4 b, Vec4 c, Vec4 d) {
  const Vec4 ab = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  const Vec4 cd = __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

// The four sums of v[0], v[1], v[2], v[3].
inline Vec4 sum4(const Vec (*v)[kVecs]) {
#if defined(__AVX512F__)
  // The same tree, with the first two steps of two and of four sums in one register: 13 operations, not 25.
  const Vec a = v[0][0], b = v[1][0], c = v[2][0], d = v[3][0];
  const Vec ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                 __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  const Vec cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                 __builtin_shufflevector(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  const Vec s = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
                __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const Vec t = s + __builtin_shufflevector(s, s, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  const Vec u = t + __builtin_shufflevector(t, t, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return __builtin_shufflevector(u, u, 0, 4, 8, 12);
#else
  return finish(fold(v[0]), fold(v[1]), fold(v[2]), fold(v[3]));
#endif
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
