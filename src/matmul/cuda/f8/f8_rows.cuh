// Rows of x as e4m3. Each 128 columns of a row have a scale of their own, the power of two by which their largest
// magnitude lies between 224 and 448, so a row's values depend on nothing but the row, and bf16 holds them exactly: the
// kernel of one to eight rows rounds in registers (stream_f8.cuh) what f8_rows_cuda.cu rounds for f8.cuh, to the same
// values. What is rounded is a bf16 value; where a norm is made on the way (NormLink), that of x times the norm's
// weight, and the root goes into the scale.
#pragma once

#include "cuda/codes.cuh"
#include "cuda/pairs.cuh"

namespace ingot::cuda {

// The scale of 128 columns as an exponent, given the bits of the largest magnitude in bf16. What is below 2^-110 is
// nothing.
__host__ __device__ constexpr uint32_t f8_exponent(uint32_t most) {
  // A mantissa above 448's takes the next power.
  const uint32_t exponent = (most + 31) >> 7;
  return exponent < 16 ? 16 : exponent > 255 ? 255 : exponent;
}
// The scale, and what values are multiplied by, as the bits of a float.
__host__ __device__ constexpr uint32_t f8_scale_bits(uint32_t exponent) { return (exponent - 8) << 23; }
__host__ __device__ constexpr uint32_t f8_inverse_bits(uint32_t exponent) { return (262 - exponent) << 23; }

// The larger of each two halves, as numbers without sign.
__device__ __forceinline__ uint32_t larger_halves(uint32_t a, uint32_t b) {
#if !defined(INGOT_CUDA_EMULATED) && __CUDA_ARCH__ >= 900
  uint32_t out;
  asm("max.u16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
#else
  const uint32_t low = max(a & 0xffffu, b & 0xffffu), high = max(a >> 16, b >> 16);
  return high << 16 | low;
#endif
}

// Two values of at most 448 as e4m3, the first in byte 0; rounded to nearest even.
__device__ __forceinline__ uint32_t round_to_fp8(float first, float second) {
#if !defined(INGOT_CUDA_EMULATED) && __CUDA_ARCH__ >= 890
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
  return codes;
#else
  uint8_t low, high;
  F8_E4M3::encode(&first, &low);
  F8_E4M3::encode(&second, &high);
  return low | static_cast<uint32_t>(high) << 8;
#endif
}

// Weights that meet such rows, and the rows themselves: their codes as wgmma_fp8.cuh reads them. A chunk of weights is
// 16 rows of 128 columns, eight and eight of 128 bytes, permuted by pieces as matrices by rows are. Of eight rows the
// one of lanes 4g + t is number f8_row(g): so the eight lanes of a quarter of a load, of two rows, have pieces in all
// banks. Byte p of a row is of column f8_col(p): 16 bytes are what a lane has of two units of 32 columns, in the order
// in which two codes at a time become f16. Behind the codes the 16 rows' scales.
inline constexpr int kF8Cols = 128;
inline constexpr int kF8Codes = 16 * kF8Cols, kF8Chunk = kF8Codes + 16 * 4;  // bytes
__host__ __device__ constexpr int f8_row(int g) { return g / 2 + g % 2 * 4; }
__host__ __device__ constexpr int f8_row_at(int place) { return place % 4 * 2 + place / 4; }  // whose f8_row() it is
__host__ __device__ constexpr int f8_col(int p) {
  const int unit = p / 64 * 2 + p / 8 % 2, in_word = (p % 2 == 0 ? 2 : 0) + p % 4 / 2;
  return 32 * unit + p / 16 % 4 * 8 + p / 4 % 2 * 4 + in_word;
}

// Where piece i of the four of a lane lies in a chunk: units 0 and 1 of row g, units 2 and 3, and of row g + 8.
__host__ __device__ constexpr int f8_piece(int lane, int i) {
  const int row = f8_row(lane / 4);
  return i / 2 * 1024 + row * kF8Cols + kv_piece(row, lane % 4 + i % 2 * 4) * 16;
}

}  // namespace ingot::cuda
