// Published formats, code by code, and their scales as the packed weights have them (stream_scales.cuh): what packing
// reads. Layouts are those of the formats' own headers.
#pragma once

#include "cuda/kernel.cuh"
#include "matmul/cuda/stream/stream_scales.cuh"
#include "quant/k_scales.h"
#include "quant/weight.h"

namespace ingot::cuda {

// Scales beside the data, of one row: null where there are none.
struct BesideScales {
  const float* data = nullptr;
  int64_t rows = 1, cols = 1, stride = 0;

  BesideScales() = default;
  explicit BesideScales(const Weight& w) {
    if (w.scale == nullptr) return;
    data = w.scale;
    rows = w.scale_rows;
    cols = w.scale_cols;
    stride = w.scale_stride;
  }
  struct Row {
    const float* data;
    int64_t cols;
    __device__ float at(int64_t col) const { return data == nullptr ? 1.0f : data[col / cols]; }
  };
  __device__ Row of_row(int64_t row) const { return {data == nullptr ? nullptr : data + row / rows * stride, cols}; }
};

namespace detail {
__device__ inline uint32_t nibble(uint8_t byte, int64_t i) { return byte >> (4 * i) & 15; }
__device__ inline void put_u16(std::byte* to, uint16_t v) { *reinterpret_cast<uint16_t*>(to) = v; }
__device__ inline void put_u8(std::byte* to, uint32_t v) { *to = static_cast<std::byte>(v); }
}  // namespace detail

// code(row, col): the code of a weight. scales(row, first, cols, beside, to, r): the scales of row r of a chunk's 16,
// whose first column is `first`; zeros for groups beyond `cols`. no_scales(): of a row that does not exist.
template <class F>
struct Published;

// Blocks of 32 with the codes of i and i + 16 in one byte, at kCodes.
template <class F, int kCodes>
struct PublishedBlocks {
  __device__ static const uint8_t* block(const uint8_t* row, int64_t col) { return row + col / 32 * F::kBytes; }
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    return detail::nibble(block(row, col)[kCodes + col % 16], col % 32 / 16);
  }
};
// Scales of U f16, those of a block at its first two bytes.
template <class F, int U>
struct PublishedHalves {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t cols, BesideScales::Row, std::byte* to,
                                int r) {
    for (int g = 0; g < U; ++g) {
      const int64_t col = first + 32 * g;
      detail::put_u16(to + (r * U + g) * 2, col < cols ? load_u16(row + col / 32 * F::kBytes) : uint16_t{0});
    }
  }
  __device__ static void no_scales(std::byte* to, int r) {
    for (int g = 0; g < U; ++g) detail::put_u16(to + (r * U + g) * 2, 0);
  }
};
// Of f16 pairs.
template <class F>
struct PublishedPairs {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t cols, BesideScales::Row, std::byte* to,
                                int r) {
    for (int g = 0; g < 4; ++g) {
      const int64_t col = first + 32 * g;
      const uint8_t* block = row + col / 32 * F::kBytes;
      detail::put_u16(to + r * 16 + g * 4, col < cols ? load_u16(block) : uint16_t{0});
      detail::put_u16(to + r * 16 + g * 4 + 2, col < cols ? load_u16(block + 2) : uint16_t{0});
    }
  }
  __device__ static void no_scales(std::byte* to, int r) {
    *reinterpret_cast<uint4*>(to + r * 16) = make_uint4(0, 0, 0, 0);
  }
};

template <>
struct Published<Q4_0> : PublishedBlocks<Q4_0, 2>, PublishedHalves<Q4_0, 4> {};
template <>
struct Published<IQ4_NL> : PublishedBlocks<IQ4_NL, 2>, PublishedHalves<IQ4_NL, 4> {};
template <>
struct Published<Q4_1> : PublishedBlocks<Q4_1, 4>, PublishedPairs<Q4_1> {};
template <>
struct Published<Q5_0> : PublishedHalves<Q5_0, 4> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const uint8_t* block = row + col / 32 * Q5_0::kBytes;
    const auto i = static_cast<int>(col % 32);
    return PublishedBlocks<Q5_0, 6>::code(row, col) | (block[2 + i / 8] >> (i % 8) & 1u) << 4;
  }
};
template <>
struct Published<Q5_1> : PublishedPairs<Q5_1> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const uint8_t* block = row + col / 32 * Q5_1::kBytes;
    const auto i = static_cast<int>(col % 32);
    return PublishedBlocks<Q5_1, 8>::code(row, col) | (block[4 + i / 8] >> (i % 8) & 1u) << 4;
  }
};
template <>
struct Published<Q8_0> : PublishedHalves<Q8_0, 2> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    return row[col / 32 * Q8_0::kBytes + 2 + col % 32] ^ 0x80u;
  }
};
template <>
struct Published<MXFP4> : PublishedBlocks<MXFP4, 1> {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t cols, BesideScales::Row, std::byte* to,
                                int r) {
    for (int g = 0; g < 4; ++g) {
      const int64_t col = first + 32 * g;
      const int exponent = col < cols ? row[col / 32 * MXFP4::kBytes] : 0;
      detail::put_u8(to + r * 4 + g, static_cast<uint8_t>(min(exponent + Exponents::kMore, 255)));
    }
  }
  __device__ static void no_scales(std::byte* to, int r) { *reinterpret_cast<uint32_t*>(to + r * 4) = 0; }
};

// A code of a group whose scale is zero is zero.
template <>
struct Published<NVFP4> {
  static constexpr int64_t kCols = 128;  // of a chunk
  __device__ static uint32_t scale_of(const uint8_t* row, int64_t col) {
    const uint32_t s = row[col / NVFP4::kBlock * NVFP4::kBytes + col % NVFP4::kBlock / NVFP4::kGroup] & 0x7fu;
    return s == 0x7f ? 0 : s;
  }
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    if (scale_of(row, col) == 0) return 0;
    const uint8_t* codes = row + col / NVFP4::kBlock * NVFP4::kBytes + NVFP4::kGroups;
    return detail::nibble(codes[col % NVFP4::kBlock / 16 * 8 + col % 8], col % 16 / 8);
  }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t cols, BesideScales::Row beside,
                                std::byte* to, int r) {
    *reinterpret_cast<float*>(to + r * 4) = FloatsOf16::stored(beside.at(first));
    for (int g = 0; g < kCols / NVFP4::kGroup; ++g) {
      const int64_t col = first + g * NVFP4::kGroup;
      detail::put_u8(to + 64 + r * 8 + g, FloatsOf16::byte_of(col < cols ? scale_of(row, col) : 0));
    }
  }
  __device__ static void no_scales(std::byte* to, int r) {
    *reinterpret_cast<float*>(to + r * 4) = 0;
    *reinterpret_cast<uint2*>(to + 64 + r * 8) = make_uint2(0, 0);
  }
};

template <class F>
struct PublishedInt4 {
  static constexpr int64_t kGroupBytes = F::kHead + F::kGroup / 2;
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const uint8_t* group = row + col / F::kGroup * kGroupBytes;
    return detail::nibble(group[F::kHead + col % F::kGroup / 32 * 16 + col % 16], col % 32 / 16);
  }
};
template <>
struct Published<INT4> : PublishedInt4<INT4> {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    detail::put_u16(to + r * 2, load_u16(row + first / INT4::kGroup * kGroupBytes));
  }
  __device__ static void no_scales(std::byte* to, int r) { detail::put_u16(to + r * 2, 0); }
};
template <>
struct Published<INT4_ASYM> : PublishedInt4<INT4_ASYM> {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* group = row + first / INT4_ASYM::kGroup * kGroupBytes;
    detail::put_u16(to + r * 4, load_u16(group));
    detail::put_u16(to + r * 4 + 2, f16_bits(static_cast<float>(group[2])));
  }
  __device__ static void no_scales(std::byte* to, int r) { *reinterpret_cast<uint32_t*>(to + r * 4) = 0; }
};

struct PublishedFloat {
  __device__ static void no_scales(std::byte* to, int r) { *reinterpret_cast<float*>(to + r * 4) = 0; }
};
template <>
struct Published<INT8> : PublishedFloat {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) { return row[INT8::kHead + col] ^ 0x80u; }
  __device__ static void scales(const uint8_t* row, int64_t, int64_t, BesideScales::Row, std::byte* to, int r) {
    *reinterpret_cast<float*>(to + r * 4) = INT8::scale(row);
  }
};
// A code that is no number, from kNone on, makes the scale of its chunk none: the operand has no bits for it.
template <uint8_t kNone>
struct PublishedFloat8 : PublishedFloat {
  static constexpr int64_t kCols = 128;  // of a chunk
  __device__ static uint32_t code(const uint8_t* row, int64_t col) { return row[col]; }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t cols, BesideScales::Row beside,
                                std::byte* to, int r) {
    float scale = beside.at(first);
    const int64_t end = first + kCols < cols ? first + kCols : cols;
    for (int64_t col = first; col < end; ++col) {
      if ((row[col] & 0x7f) >= kNone) scale = NAN;
    }
    *reinterpret_cast<float*>(to + r * 4) = scale;
  }
};
template <>
struct Published<F8_E4M3> : PublishedFloat8<0x7f> {};
template <>
struct Published<F8_E5M2> : PublishedFloat8<0x7c> {};

// Blocks of 256: half a block is a chunk.
template <class F>
struct PublishedK {
  __device__ static const uint8_t* block(const uint8_t* row, int64_t col) { return row + col / 256 * F::kBytes; }
};
// Scales and mins of Q4_K and Q5_K.
template <class F>
struct PublishedKMins : PublishedK<F> {
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* block = PublishedK<F>::block(row, first);
    uint8_t scale[8], min[8];
    unpack_k_scales(block + 4, scale, min);
    detail::put_u16(to + r * 4, load_u16(block));
    detail::put_u16(to + r * 4 + 2, load_u16(block + 2));
    const int half = static_cast<int>(first % 256) / 128;
    for (int g = 0; g < 4; ++g) {
      detail::put_u8(to + 64 + r * 8 + g * 2, half == 0 ? scale[g] : scale[4 + g]);
      detail::put_u8(to + 64 + r * 8 + g * 2 + 1, half == 0 ? min[g] : min[4 + g]);
    }
  }
  __device__ static void no_scales(std::byte* to, int r) {
    *reinterpret_cast<uint32_t*>(to + r * 4) = 0;
    *reinterpret_cast<uint2*>(to + 64 + r * 8) = make_uint2(0, 0);
  }
};
template <>
struct Published<Q4_K> : PublishedKMins<Q4_K> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256);
    return detail::nibble(block(row, col)[16 + k / 64 * 32 + k % 32], k / 32 % 2);
  }
};
template <>
struct Published<Q5_K> : PublishedKMins<Q5_K> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256);
    const uint8_t* b = block(row, col);
    return detail::nibble(b[48 + k / 64 * 32 + k % 32], k / 32 % 2) | (b[16 + k % 32] >> (k / 32) & 1u) << 4;
  }
};

// Groups of 16 with int8 scales.
struct PublishedSixteens {
  __device__ static void no_scales(std::byte* to, int r) {
    detail::put_u16(to + r * 2, 0);
    *reinterpret_cast<uint2*>(to + 32 + r * 8) = make_uint2(0, 0);
  }
};
template <>
struct Published<Q6_K> : PublishedK<Q6_K>, PublishedSixteens {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256), half = k / 128, s = k % 128 / 32;
    const uint8_t* b = block(row, col);
    return detail::nibble(b[64 * half + 32 * (s % 2) + k % 32], s / 2) | (b[128 + 32 * half + k % 32] >> (2 * s) & 3u)
                                                                             << 4;
  }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* b = block(row, first);
    detail::put_u16(to + r * 2, load_u16(b + 208));
    for (int g = 0; g < 8; ++g) detail::put_u8(to + 32 + r * 8 + g, b[192 + first % 256 / 16 + g] ^ 0x80u);
  }
};
template <>
struct Published<Q3_K> : PublishedK<Q3_K>, PublishedSixteens {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256), half = k / 128, s = k % 128 / 32;
    const uint8_t* b = block(row, col);
    return (b[32 + 32 * half + k % 32] >> (2 * s) & 3u) | (b[k % 32] >> (k / 32) & 1u) << 2;
  }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* b = block(row, first);
    detail::put_u16(to + r * 2, load_u16(b + 108));
    for (int g = 0; g < 8; ++g) {
      const int j = static_cast<int>(first % 256) / 16 + g;
      const int low = (b[96 + j % 8] >> (4 * (j / 8))) & 15, high = (b[104 + j % 4] >> (2 * (j / 4))) & 3;
      detail::put_u8(to + 32 + r * 8 + g, static_cast<uint32_t>((low | (high << 4)) - 32 + 128));
    }
  }
};
template <>
struct Published<Q2_K> : PublishedK<Q2_K> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256);
    return block(row, col)[16 + 32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32)) & 3u;
  }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* b = block(row, first);
    detail::put_u16(to + r * 4, load_u16(b + 80));
    detail::put_u16(to + r * 4 + 2, load_u16(b + 82));
    for (int g = 0; g < 8; ++g) detail::put_u8(to + 64 + r * 8 + g, b[first % 256 / 16 + g]);
  }
  __device__ static void no_scales(std::byte* to, int r) {
    *reinterpret_cast<uint32_t*>(to + r * 4) = 0;
    *reinterpret_cast<uint2*>(to + 64 + r * 8) = make_uint2(0, 0);
  }
};
template <>
struct Published<IQ4_XS> : PublishedK<IQ4_XS> {
  __device__ static uint32_t code(const uint8_t* row, int64_t col) {
    const auto k = static_cast<int>(col % 256);
    return detail::nibble(block(row, col)[8 + k / 32 * 16 + k % 16], k % 32 / 16);
  }
  __device__ static void scales(const uint8_t* row, int64_t first, int64_t, BesideScales::Row, std::byte* to, int r) {
    const uint8_t* b = block(row, first);
    detail::put_u16(to + r * 2, load_u16(b));
    const int high = load_u16(b + 2);
    for (int g = 0; g < 4; ++g) {
      const int j = static_cast<int>(first % 256) / 32 + g;
      const int low = (b[4 + j / 2] >> (4 * (j % 2))) & 15;
      detail::put_u8(to + 32 + r * 4 + g, static_cast<uint32_t>((low | (((high >> (2 * j)) & 3) << 4)) - 32) & 0xff);
    }
  }
  __device__ static void no_scales(std::byte* to, int r) {
    detail::put_u16(to + r * 2, 0);
    *reinterpret_cast<uint32_t*>(to + 32 + r * 4) = 0;
  }
};

}  // namespace ingot::cuda
