// Two bf16 in a register, and the four bytes of one: for kernels that unpack weights.
#pragma once

#include "cuda/kernel.cuh"

namespace ingot::cuda {

// a · b + c of two pairs, rounded once.
__device__ __forceinline__ uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
#ifdef INGOT_CUDA_EMULATED
  const auto half = [](uint32_t word, int i) { return bf16_value(static_cast<uint16_t>(word >> (16 * i))); };
  return pack_bf16(__fmaf_rn(half(a, 0), half(b, 0), half(c, 0)), __fmaf_rn(half(a, 1), half(b, 1), half(c, 1)));
#else
  uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
#endif
}

// The products of two pairs. Minus zero may be added to anything: fma is the instruction that all devices have.
__device__ __forceinline__ uint32_t multiply_pair(uint32_t a, uint32_t b) { return fma_pair(a, b, 0x80008000u); }

// Bytes of b:a: byte i is the one that bits 4i … 4i + 2 of `which` name. REQUIRES: bits 4i + 3 are 0.
__device__ inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t which) {
#ifdef INGOT_CUDA_EMULATED
  const uint64_t all = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<uint32_t>(all >> (8 * (which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return out;
#else
  return __byte_perm(a, b, which);
#endif
}

}  // namespace ingot::cuda
