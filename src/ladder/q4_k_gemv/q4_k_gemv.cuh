// What the steps of q4_k_gemv share. A block of 256 values has 144 bytes: d and dmin in f16, eight 6-bit scales and
// minimums in 12 bytes, then 128 bytes of codes, whose p-th 32 hold values 64p … 64p + 31 in the low halves of bytes
// and the next 32 in the high ones. A value is d · scale · code - dmin · min.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/q4_k_gemv/q4_k_gemv.h"
#include "ops/cuda/ctx.h"

namespace ingot::cuda::q4_k_parts {

inline constexpr int kThreads = 256, kWarps = kThreads / 32;
inline constexpr int kBlockBytes = 144, kBlockValues = 256;

struct Product {
  const uint8_t* weight;
  int rows, cols;
  const uint16_t* x;
  float* out;

  explicit Product(const Q4KGemv& op)
      : weight(reinterpret_cast<const uint8_t*>(op.weight.data)),
        rows(static_cast<int>(op.weight.rows)),
        cols(static_cast<int>(op.weight.cols)),
        x(reinterpret_cast<const uint16_t*>(op.x.data)),
        out(reinterpret_cast<float*>(op.out.data)) {}
  __device__ int blocks() const { return cols / kBlockValues; }
  __device__ const uint8_t* block(int row, int i) const { return weight + (int64_t{row} * blocks() + i) * kBlockBytes; }
};

struct Affine {
  float scale, min;
};

// Scale and minimum of 32 values, number j of the block: `head` are its first 16 bytes.
__device__ inline Affine affine_of(const uint4& head, int j) {
  const uint32_t words[3] = {head.y, head.z, head.w};
  const auto byte = [&](int i) {
    const uint32_t word = i / 4 == 0 ? words[0] : i / 4 == 1 ? words[1] : words[2];
    return word >> (i % 4 * 8) & 0xffu;
  };
  uint32_t scale, min;
  if (j < 4) {
    scale = byte(j) & 63;
    min = byte(j + 4) & 63;
  } else {
    scale = (byte(j + 4) & 15) | byte(j - 4) >> 6 << 4;
    min = byte(j + 4) >> 4 | byte(j) >> 6 << 4;
  }
  return {f16_value(static_cast<uint16_t>(head.x & 0xffffu)) * static_cast<float>(scale),
          f16_value(static_cast<uint16_t>(head.x >> 16)) * static_cast<float>(min)};
}

// Eight values of bf16 as floats.
__device__ inline void open_eight(const uint4& from, float* to) {
  const uint32_t words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

}  // namespace ingot::cuda::q4_k_parts
