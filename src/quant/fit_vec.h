// Eight floats that are computed with at a time, in as many registers as the machine needs for them. Each operation is
// the plain one on every lane: the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace ingot {
namespace {  // a set of instructions has its own

constexpr size_t kLanes = 8;

#if defined(__AVX2__)
typedef float FloatRegister __attribute__((vector_size(32)));
typedef int32_t IntRegister __attribute__((vector_size(32)));
#else
typedef float FloatRegister __attribute__((vector_size(16)));
typedef int32_t IntRegister __attribute__((vector_size(16)));
#endif

#define INGOT_INLINE [[gnu::always_inline]] inline

// What a comparison gives: all bits of a lane, or none.
struct Mask {
  static constexpr size_t kParts = kLanes * sizeof(int32_t) / sizeof(IntRegister);
  IntRegister part[kParts];
};

struct Vec {
  static constexpr size_t kParts = Mask::kParts;
  FloatRegister part[kParts];

  Vec() = default;
  INGOT_INLINE Vec(float x) {  // NOLINT: a number is a vector of it
    for (FloatRegister& p : part) p = x - FloatRegister{};
  }
  INGOT_INLINE float operator[](size_t lane) const {
    float all[kLanes];
    __builtin_memcpy(all, part, sizeof(all));
    return all[lane];
  }
  INGOT_INLINE static Vec load(const float* from) {
    Vec v;
    __builtin_memcpy(v.part, from, sizeof(v.part));
    return v;
  }
  float total() const {
    float x[kLanes];
    store(x);
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
  }
  INGOT_INLINE void store(float* to) const { __builtin_memcpy(to, part, sizeof(part)); }
};

// INGOT_LANES(Vec, a.part[p] + b.part[p]): a result of that expression for each register.
#define INGOT_LANES(TYPE, EXPRESSION)                                   \
  TYPE result;                                                          \
  for (size_t p = 0; p < Vec::kParts; ++p) result.part[p] = EXPRESSION; \
  return result

INGOT_INLINE Vec operator+(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] + b.part[p]); }
INGOT_INLINE Vec operator-(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] - b.part[p]); }
INGOT_INLINE Vec operator*(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] * b.part[p]); }
INGOT_INLINE Vec operator/(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] / b.part[p]); }
INGOT_INLINE Vec operator-(Vec a) { INGOT_LANES(Vec, -a.part[p]); }
INGOT_INLINE Vec& operator+=(Vec& a, Vec b) { return a = a + b; }
INGOT_INLINE Mask operator<(Vec a, Vec b) { INGOT_LANES(Mask, a.part[p] < b.part[p]); }
INGOT_INLINE Mask operator==(Vec a, Vec b) { INGOT_LANES(Mask, a.part[p] == b.part[p]); }
INGOT_INLINE Mask operator|(Mask a, Mask b) { INGOT_LANES(Mask, a.part[p] | b.part[p]); }
INGOT_INLINE Vec select(Mask m, Vec a, Vec b) { INGOT_LANES(Vec, m.part[p] ? a.part[p] : b.part[p]); }

// `b` where `a` is no number.
#if defined(__ARM_NEON)
INGOT_INLINE Vec least(Vec a, Vec b) { INGOT_LANES(Vec, (FloatRegister)vminnmq_f32(a.part[p], b.part[p])); }
INGOT_INLINE Vec most(Vec a, Vec b) { INGOT_LANES(Vec, (FloatRegister)vmaxnmq_f32(a.part[p], b.part[p])); }
INGOT_INLINE Vec nearest_integer(Vec a) { INGOT_LANES(Vec, (FloatRegister)vrndnq_f32(a.part[p])); }
#else
INGOT_INLINE Vec least(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] < b.part[p] ? a.part[p] : b.part[p]); }
INGOT_INLINE Vec most(Vec a, Vec b) { INGOT_LANES(Vec, a.part[p] > b.part[p] ? a.part[p] : b.part[p]); }
// Adding 1.5 · 2^23 leaves no bits below 1. REQUIRES: |a| < 2^22.
INGOT_INLINE Vec nearest_integer(Vec a) { return (a + 0x1.8p23f) - 0x1.8p23f; }
#endif
INGOT_INLINE Vec inverse_or_zero(Vec x) { return select(x == 0.0f, 0.0f, 1.0f / x); }

#undef INGOT_LANES

}  // namespace
}  // namespace ingot
