// Loops of nothing but products in registers, for the instruction set INGOT_ISA (cpu/isa_source.h), and their table.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "bench/multiplier.h"
#include "cpu/isa_source.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Sums in flight at once: 2 or 4 products begin in each cycle and take 3 to 5.
constexpr int kSums = 12;

// The compiler sees a vector change here, so it neither moves nor drops what was computed.
#if defined(__AVX512F__)
#define INGOT_TOUCH(v) asm volatile("" : "+v"(v))
#elif defined(__x86_64__)
#define INGOT_TOUCH(v) asm volatile("" : "+x"(v))
#elif defined(__ARM_NEON)
#define INGOT_TOUCH(v) asm volatile("" : "+w"(v))
#else
#define INGOT_TOUCH(v) asm volatile("" : "+m"(v))
#endif

// A constant that lies in memory first: on the Neoverse-V1 products of one from `movi` begin at half the rate.
#define INGOT_RELOAD(v) asm volatile("" : "+m"(v))

// rounds × kSums times step(sum); gives 2 · products · all of them.
template <class Vector, class Step>
inline double repeat(int64_t rounds, int products, Vector zero, const Step& step) {
  Vector sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = zero;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = step(sums[i]);
      INGOT_TOUCH(sums[i]);
    }
  }
  return 2.0 * products * kSums * static_cast<double>(rounds);
}

#if defined(__AVX512F__)
double f32(int64_t rounds) {
  __m512 a = _mm512_set1_ps(0.5f);
  INGOT_TOUCH(a);
  return repeat(rounds, 16, _mm512_setzero_ps(), [&](__m512 sum) { return _mm512_fmadd_ps(a, a, sum); });
}
#elif defined(__AVX2__)
double f32(int64_t rounds) {
  __m256 a = _mm256_set1_ps(0.5f);
  INGOT_TOUCH(a);
  return repeat(rounds, 8, _mm256_setzero_ps(), [&](__m256 sum) { return _mm256_fmadd_ps(a, a, sum); });
}
#elif defined(__ARM_NEON)
double f32(int64_t rounds) {
  float32x4_t a = vdupq_n_f32(0.5f);
  INGOT_RELOAD(a);
  return repeat(rounds, 4, vdupq_n_f32(0), [&](float32x4_t sum) { return vfmaq_f32(sum, a, a); });
}
#else
typedef float Four __attribute__((vector_size(16)));
double f32(int64_t rounds) {
  Four a = 0.5f - Four{};
  INGOT_TOUCH(a);
  return repeat(rounds, 4, Four{}, [&](Four sum) { return sum + a * a; });
}
#endif

#if defined(__AMX_INT8__)
void begin_tiles() {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("" : "+m"(config));  // the compiler's header says that 8 of its bytes are read
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

double bf16(int64_t rounds) {
  begin_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

double int8(int64_t rounds) {
  begin_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbusd(0, 4, 5);
    _tile_dpbusd(1, 4, 5);
    _tile_dpbusd(2, 4, 5);
    _tile_dpbusd(3, 4, 5);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(rounds);
}
#elif defined(__AVX512VNNI__)
double int8(int64_t rounds) {
  __m512i a = _mm512_set1_epi8(1);
  INGOT_TOUCH(a);
  return repeat(rounds, 64, _mm512_setzero_si512(), [&](__m512i sum) { return _mm512_dpbusd_epi32(sum, a, a); });
}
#elif defined(__AVX512F__)
double int8(int64_t rounds) {
  __m512i a = _mm512_set1_epi8(1);
  INGOT_TOUCH(a);
  return repeat(rounds, 64, _mm512_setzero_si512(),
                [&](__m512i sum) { return _mm512_add_epi16(sum, _mm512_maddubs_epi16(a, a)); });
}
#elif defined(__AVX2__)
double int8(int64_t rounds) {
  __m256i a = _mm256_set1_epi8(1);
  INGOT_TOUCH(a);
  return repeat(rounds, 32, _mm256_setzero_si256(),
                [&](__m256i sum) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, a)); });
}
#elif defined(__x86_64__)
double int8(int64_t rounds) {
  __m128i a = _mm_set1_epi16(1);
  INGOT_TOUCH(a);
  return repeat(rounds, 8, _mm_setzero_si128(), [&](__m128i sum) { return _mm_add_epi32(sum, _mm_madd_epi16(a, a)); });
}
#elif defined(__ARM_FEATURE_MATMUL_INT8)
double int8(int64_t rounds) {
  int8x16_t a = vdupq_n_s8(1);
  INGOT_RELOAD(a);
  return repeat(rounds, 32, vdupq_n_s32(0), [&](int32x4_t sum) { return vmmlaq_s32(sum, a, a); });
}
#elif defined(__ARM_FEATURE_DOTPROD)
double int8(int64_t rounds) {
  int8x16_t a = vdupq_n_s8(1);
  INGOT_RELOAD(a);
  return repeat(rounds, 16, vdupq_n_s32(0), [&](int32x4_t sum) { return vdotq_s32(sum, a, a); });
}
#elif defined(__ARM_NEON)
double int8(int64_t rounds) {
  int8x8_t a = vdup_n_s8(1);
  INGOT_RELOAD(a);
  return repeat(rounds, 8, vdupq_n_s16(0), [&](int16x8_t sum) { return vmlal_s8(sum, a, a); });
}
#else
typedef int16_t Eight __attribute__((vector_size(16)));
double int8(int64_t rounds) {
  Eight a = 1 - Eight{};
  INGOT_TOUCH(a);
  return repeat(rounds, 8, Eight{}, [&](Eight sum) { return sum + a * a; });
}
#endif

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
double bf16(int64_t rounds) {
  bfloat16x8_t a = vreinterpretq_bf16_u16(vdupq_n_u16(0x3f1a));
  INGOT_RELOAD(a);
  return repeat(rounds, 16, vdupq_n_f32(0), [&](float32x4_t sum) { return vbfmmlaq_f32(sum, a, a); });
}
#elif !defined(__AMX_INT8__)
constexpr auto bf16 = f32;
#endif

constexpr Multiplier kMultiplierTable = {.int8 = int8, .f32 = f32, .bf16 = bf16};

#undef INGOT_RELOAD
#undef INGOT_TOUCH

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
