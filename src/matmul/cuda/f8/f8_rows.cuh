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

}  // namespace ingot::cuda
