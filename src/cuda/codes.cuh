// The KV cache's 8-bit codes as pairs of f16, which holds every e4m3 and every int8 exactly: what the matrix
// instructions multiply.
#pragma once

#include "cuda/kernel.cuh"
#include "quant/formats/f8_e4m3.h"

namespace ingot::cuda {

// Products of two pairs of f16, rounded to nearest even.
__device__ inline uint32_t multiply_pairs(uint32_t a, uint32_t b) {
#ifdef INGOT_CUDA_EMULATED
  const auto half = [](uint32_t x, int shift) { return f16_value(static_cast<uint16_t>(x >> shift)); };
  return pack_f16(half(a, 0) * half(b, 0), half(a, 16) * half(b, 16));
#else
  uint32_t out;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
#endif
}

namespace detail {

#ifdef INGOT_CUDA_EMULATED

template <DType kType>
uint32_t open_pair(uint32_t codes, int first, int second) {
  float x[2];
  for (int i = 0; i < 2; ++i) {
    const auto code = static_cast<uint8_t>(codes >> (8 * (i == 0 ? first : second)));
    if constexpr (kType == DType::kFp8) {
      F8_E4M3::decode(&code, &x[i]);
    } else {
      x[i] = static_cast<float>(static_cast<int8_t>(code));
    }
  }
  return pack_f16(x[0], x[1]);
}

#else

// Bytes 0 and 1 (or 2 and 3, kUpper) of e4m3.
template <bool kUpper>
__device__ inline uint32_t open_fp8(uint32_t codes) {
  uint32_t out;
#if __CUDA_ARCH__ >= 890
  const uint16_t two = static_cast<uint16_t>(kUpper ? codes >> 16 : codes & 0xffffu);
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(two));
#else
  // Exponent and mantissa in place for f16, whose bias is 8 larger; 2^8 corrects it. 0x7f is no number.
  const uint32_t spread = __byte_perm(codes, 0, kUpper ? 0x3424 : 0x1404);
  const uint32_t moved = (spread & 0x80008000u) | (spread >> 1 & 0x3f803f80u);
  const uint32_t nan = __vcmpeq2(moved & 0x7fff7fffu, 0x3f803f80u);
  out = multiply_pairs(moved, 0x5c005c00u) | nan;
#endif
  return out;
}
// 0x64 above a byte is 1024 plus the byte in f16; 1152 less is the int8 that the byte was before its sign was turned.
__device__ inline uint32_t open_int8(uint32_t turned, uint32_t selector) {
  uint32_t out;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(__byte_perm(turned, 0x64646464u, selector)), "r"(0x64806480u));
  return out;
}

#endif

}  // namespace detail

// Four codes, byte 0 first: those of bytes 0 and 1, and those of 2 and 3.
template <DType kType>
__device__ inline void open_codes(uint32_t codes, uint32_t& low, uint32_t& high) {
#ifdef INGOT_CUDA_EMULATED
  low = detail::open_pair<kType>(codes, 0, 1);
  high = detail::open_pair<kType>(codes, 2, 3);
#else
  if constexpr (kType == DType::kFp8) {
    low = detail::open_fp8<false>(codes);
    high = detail::open_fp8<true>(codes);
  } else {
    codes ^= 0x80808080u;
    low = detail::open_int8(codes, 0x4140);
    high = detail::open_int8(codes, 0x4342);
  }
#endif
}

// The same of bytes 0 and 2, and of 1 and 3.
template <DType kType>
__device__ inline void open_codes_across(uint32_t codes, uint32_t& even, uint32_t& odd) {
#ifdef INGOT_CUDA_EMULATED
  even = detail::open_pair<kType>(codes, 0, 2);
  odd = detail::open_pair<kType>(codes, 1, 3);
#else
  if constexpr (kType == DType::kFp8) {
    open_codes<kType>(__byte_perm(codes, 0, 0x3120), even, odd);
  } else {
    codes ^= 0x80808080u;
    even = detail::open_int8(codes, 0x4240);
    odd = detail::open_int8(codes, 0x4341);
  }
#endif
}

}  // namespace ingot::cuda
