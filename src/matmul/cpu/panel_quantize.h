// Rows of x as int8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_kernels.h"
#include "matmul/cpu/panel_simd.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#if defined(__ARM_NEON)
// The largest |x| of a block as bits, lane by lane.
inline uint32x4_t largest_lanes(const float* x) {
  uint32x4_t most[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
#pragma GCC unroll 8
  for (int i = 0; i < kPanelBlock; i += 4)
    most[i / 4 % 2] = vmaxq_u32(most[i / 4 % 2], vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
  return vmaxq_u32(most[0], most[1]);
}
#endif

// The largest |x| of a block as bits: those of NaN are above those of infinity, so neither is lost.
inline uint32_t largest_bits(const float* x) {
#if defined(__ARM_NEON)
  return vmaxvq_u32(largest_lanes(x));
#else
  uint32_t largest = 0;
  for (int i = 0; i < kPanelBlock; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
#endif
}

// Sets the scale; the inverse that x is multiplied with.
inline float set_scale(uint32_t largest_bits, XBlock& block) {
  const float largest = __builtin_bit_cast(float, largest_bits);
  block.scale = largest / 127.0f;
  // Below 2^-120 the inverse would overflow, or the scale lose bits: such a block counts as zeros. So does one with an
  // infinity or what is no number, which its scale tells.
  return largest > 0x1p-120f && largest <= 0x1.fffffep127f ? 127.0f / largest : 0.0f;
}

#if defined(__ARM_NEON)
// 32 values as integers, and the sums of the first and second 16, lane by lane.
inline void round_lanes(const float* x, float inverse, int8_t* q, int16_t* wide, uint32x4_t* sums) {
  // Adding it rounds to an integer, ties to even, in the low bits of the sum.
  const float32x4_t round = vdupq_n_f32(0x1.8p23f);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    uint32x4_t part[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float32x4_t sum = vaddq_f32(vmulq_n_f32(vld1q_f32(x + 16 * h + 4 * i), inverse), round);
      part[i] = vsubq_u32(vreinterpretq_u32_f32(sum), vreinterpretq_u32_f32(round));
    }
    sums[h] = vaddq_u32(vaddq_u32(part[0], part[1]), vaddq_u32(part[2], part[3]));
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(part[0]), vreinterpretq_u16_u32(part[1]));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(part[2]), vreinterpretq_u16_u32(part[3]));
    vst1q_u8(reinterpret_cast<uint8_t*>(q) + 16 * h, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
  }
  if (wide == nullptr) return;
  for (int i = 0; i < kPanelBlock; i += kRun)
    for (int twice = 0; twice < 2; ++twice) __builtin_memcpy(wide + i + kRun / 2 * twice, q + i, kRun);
}

// Four blocks at once, the same bits as one after another: a division, a sum across lanes and the way of a single value
// out of a vector cost as much as all the rest.
inline void quantize_four(const float* x, int8_t* q, int16_t* wide, XBlock* blocks) {
  const uint32x4_t low = vpmaxq_u32(largest_lanes(x), largest_lanes(x + kPanelBlock));
  const uint32x4_t high = vpmaxq_u32(largest_lanes(x + 2 * kPanelBlock), largest_lanes(x + 3 * kPanelBlock));
  const float32x4_t largest = vreinterpretq_f32_u32(vpmaxq_u32(low, high)), full = vdupq_n_f32(127.0f);
  // As set_scale().
  const uint32x4_t some =
      vandq_u32(vcgtq_f32(largest, vdupq_n_f32(0x1p-120f)), vcleq_f32(largest, vdupq_n_f32(0x1.fffffep127f)));
  float scale[4], inverse[4];
  vst1q_f32(scale, vdivq_f32(largest, full));
  vst1q_f32(inverse, vreinterpretq_f32_u32(vandq_u32(some, vreinterpretq_u32_f32(vdivq_f32(full, largest)))));
  for (int b = 0; b < 4; ++b, q += kPanelBlock) {
    uint32x4_t sums[2];
    round_lanes(x + b * kPanelBlock, inverse[b], q, wide != nullptr ? wide + b * kPanelBlock : nullptr, sums);
    const uint32x4_t quarters = vpaddq_u32(sums[0], sums[1]);
    const uint32x4_t halves = vpaddq_u32(quarters, vdupq_n_u32(0));  // [first, second, 0, 0]
    const int32x4_t all = vreinterpretq_s32_u32(vextq_u32(vrev64q_u32(vpaddq_u32(halves, halves)), halves, 3));
    // all: [both, first, second, 0]
    const float32x4_t s = vdupq_n_f32(scale[b]), products = vmulq_f32(s, vcvtq_f32_s32(all));
    float* to = &blocks[b].scale;
    vst1q_f32(to, vextq_f32(s, products, 3));
    vst1q_s32(reinterpret_cast<int32_t*>(to + 4), all);
  }
}
#endif

// 32 values as integers, and the sums of the first and second 16.
inline void round_block(const float* x, float inverse, int8_t* q, int16_t* wide, int32_t* total) {
#if defined(__ARM_NEON)
  uint32x4_t sums[2];
  round_lanes(x, inverse, q, wide, sums);
  for (int h = 0; h < 2; ++h) total[h] = static_cast<int32_t>(vaddvq_u32(sums[h]));
#else
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer, ties to even, in the low bits of the sum
  // Unsigned: what is no number has any bits, and their sum may wrap.
  uint32_t rounded[kPanelBlock], sums[2] = {0, 0};
  for (int i = 0; i < kPanelBlock; ++i)
    rounded[i] = __builtin_bit_cast(uint32_t, x[i] * inverse + kRound) - __builtin_bit_cast(uint32_t, kRound);
  for (int i = 0; i < 16; ++i) sums[0] += rounded[i];
  for (int i = 16; i < 32; ++i) sums[1] += rounded[i];
  for (int h = 0; h < 2; ++h) total[h] = static_cast<int32_t>(sums[h]);
  for (int i = 0; i < kPanelBlock; ++i) q[i] = static_cast<int8_t>(rounded[i]);
  if (wide == nullptr) return;
  for (int i = 0; i < kPanelBlock; i += 4) {
    wide[i] = static_cast<int16_t>(rounded[i]);
    wide[i + 1] = static_cast<int16_t>(rounded[i + 2]);
    wide[i + 2] = static_cast<int16_t>(rounded[i + 1]);
    wide[i + 3] = static_cast<int16_t>(rounded[i + 3]);
  }
#endif
}

// All fields, from the sums of the first and second 16.
inline void set_sums(float scale, const int32_t* total, XBlock& block) {
  block.scale = scale;
  block.total = total[0] + total[1];
  block.sum = scale * static_cast<float>(block.total);
  for (int h = 0; h < 2; ++h) {
    block.half_total[h] = total[h];
    block.half_sum[h] = scale * static_cast<float>(total[h]);
  }
  block.unused = 0;
}

void quantize(const float* x, int64_t n, int8_t* q, int16_t* wide, XBlock* blocks) {
  int64_t b = 0;
#if defined(__ARM_NEON)
  for (; b + 4 <= n / kPanelBlock; b += 4, x += 4 * kPanelBlock, q += 4 * kPanelBlock) {
    quantize_four(x, q, wide, blocks + b);
    if (wide != nullptr) wide += 4 * kPanelBlock;
  }
#endif
  for (; b < n / kPanelBlock; ++b, x += kPanelBlock, q += kPanelBlock) {
    XBlock& block = blocks[b];
    const float inverse = set_scale(largest_bits(x), block);
    int32_t total[2];
    round_block(x, inverse, q, wide, total);
    if (wide != nullptr) wide += kPanelBlock;
    set_sums(block.scale, total, block);
  }
}

// A row of x with a scale for each 128 values.
void quantize_coarse(const float* x, int64_t n, int8_t* q, int16_t* wide, XBlock* blocks, XBlock* quarters) {
  for (int64_t k = 0; k < n; k += kPanelCoarse, ++blocks) {
    const int64_t end = n < k + kPanelCoarse ? n : k + kPanelCoarse;
    uint32_t largest = 0;
    for (int64_t i = k; i < end; i += kPanelBlock) {
      const uint32_t bits = largest_bits(x + i);
      largest = bits > largest ? bits : largest;
    }
    *blocks = {};
    const float inverse = set_scale(largest, *blocks);
    for (int64_t i = k; i < end; i += kPanelBlock) {
      int32_t total[2];
      round_block(x + i, inverse, q + i, wide != nullptr ? wide + i : nullptr, total);
      blocks->total += total[0] + total[1];
      if (quarters != nullptr) set_sums(blocks->scale, total, quarters[i / kPanelBlock]);
    }
    blocks->sum = blocks->scale * static_cast<float>(blocks->total);
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
