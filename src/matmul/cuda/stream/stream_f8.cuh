// One to eight rows that are rounded to e4m3 (f8_rows.cuh), by the streaming kernel: a chunk of the weights has 128
// columns, which are what a scale of the rows is for, so a warp rounds the rows of its chunk in registers. Both codes
// are exact in f16, in which they are multiplied: to open two of the weights takes one instruction, in bf16 four.
#pragma once

#include "matmul/cuda/f8/f8_rows.cuh"
#include "matmul/cuda/stream/stream_formats.cuh"

namespace ingot::cuda {

struct StreamF8Rows {
  static constexpr int kUnits = 4, kMostRows = 32, kBytes = kF8Chunk, kScalesAt = kF8Codes, kSumPower = 0, kOdd = 0;
  static constexpr bool kBySixteens = false, kF8Rows = true;
};

// The rows of a chunk, four of them in a lane's words: words[u][s] are the codes of b of instruction s in unit u, in
// the order of the weights'; the result is the row's exponent, the same in all four lanes that have it.
__device__ __forceinline__ uint32_t round_chunk(const uint4 (&x)[StreamF8Rows::kUnits],
                                                uint32_t (&words)[StreamF8Rows::kUnits][2]) {
  uint32_t most = 0;
#pragma unroll
  for (int u = 0; u < StreamF8Rows::kUnits; ++u) {
    const uint32_t a = larger_halves(x[u].x & 0x7fff7fffu, x[u].y & 0x7fff7fffu),
                   b = larger_halves(x[u].z & 0x7fff7fffu, x[u].w & 0x7fff7fffu);
    most = larger_halves(most, larger_halves(a, b));
  }
  most = larger_halves(most, most >> 16);
  most = larger_halves(most, __shfl_xor_sync(0xffffffffu, most, 1));
  most = larger_halves(most, __shfl_xor_sync(0xffffffffu, most, 2)) & 0xffffu;
  const uint32_t exponent = f8_exponent(most), by = f8_inverse_bits(exponent) >> 16, pair = by << 16 | by;
#pragma unroll
  for (int u = 0; u < StreamF8Rows::kUnits; ++u) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const uint32_t first = multiply_pair(s == 0 ? x[u].x : x[u].z, pair),
                     second = multiply_pair(s == 0 ? x[u].y : x[u].w, pair);
      const auto low = [](uint32_t two) { return __uint_as_float(two << 16); };
      const auto high = [](uint32_t two) { return __uint_as_float(two & 0xffff0000u); };
      words[u][s] = round_to_fp8(low(second), low(first)) | round_to_fp8(high(second), high(first)) << 16;
    }
  }
  return exponent;
}

// As multiply_chunk() of stream_formats.cuh.
template <class W, int M, int J, class X>
__device__ __forceinline__ void multiply_chunk(const std::byte* const (&chunks)[M], X&& x_of, int lane,
                                               float (&sums)[M][J][4]) requires(W::kF8Rows) {
  static_assert(J == 1);
  uint4 x[W::kUnits];
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
    uint4 one[1];
    x_of(u, one);
    x[u] = one[0];
  }
  uint32_t rows[W::kUnits][2];
  const uint32_t exponent = round_chunk(x, rows);
  // Those of the two rows whose sums this lane has.
  float scale[2];
#pragma unroll
  for (int e = 0; e < 2; ++e)
    scale[e] = __uint_as_float(f8_scale_bits(__shfl_sync(0xffffffffu, exponent, (lane % 4 * 2 + e) * 4)));
  float of[M][2][4] = {};
  uint32_t codes[M][16];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 v = *reinterpret_cast<const uint4*>(chunks[m] + f8_piece(lane, i));
      codes[m][4 * i] = v.x, codes[m][4 * i + 1] = v.y, codes[m][4 * i + 2] = v.z, codes[m][4 * i + 3] = v.w;
    }
  }
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      uint32_t b[2];
      open_codes<DType::kFp8>(rows[u][s], b[0], b[1]);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) open_codes<DType::kFp8>(codes[m][i * 8 + u * 2 + s], a[i], a[i + 2]);
        multiply_f16(of[m][s], a, b);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const float* scales = reinterpret_cast<const float*>(chunks[m] + W::kScalesAt);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float of_row = scales[lane / 4 + 8 * i];
#pragma unroll
      for (int e = 0; e < 2; ++e)
        sums[m][0][2 * i + e] =
            __fmaf_rn(of_row * scale[e], of[m][0][2 * i + e] + of[m][1][2 * i + e], sums[m][0][2 * i + e]);
    }
  }
}

}  // namespace ingot::cuda
