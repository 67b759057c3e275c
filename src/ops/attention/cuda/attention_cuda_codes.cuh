// The fast kernels' keys and values where the cache has 8-bit codes: they lie in shared memory as they lie in the
// cache, and become f16, times their scales, in the registers that the matrix instructions read.
//
// A register of a matrix of keys holds four dimensions of a key that lie side by side, where one of 16-bit values has
// two and two eight further on: the queries come in that order. One of values, transposed, holds two dimensions of two
// keys, the even one and the odd one of 16: sums of weight · value come in that order.
#pragma once

#include "cuda/codes.cuh"
#include "ops/attention/cuda/attention_cuda_tile.cuh"

namespace ingot::cuda {

// Rows of `kDim` codes in shared memory, as TileRows has those of 16-bit values.
template <int kDim>
struct CodeRows {
  static constexpr bool kPermuted = kDim % 64 == 0;
  static constexpr int kStride = kDim + (kPermuted ? 0 : 16);
  static constexpr int kPieces = kDim / 16;

  __device__ static int at(int row, int piece) {
    return row * kStride + (kPermuted ? kv_code_piece(kDim, row, piece) : piece) * 16;
  }
};

// Columns 16kk … 16kk + 15 of 16 packed rows as the A operand, in the order of codes.
template <int kDim>
__device__ inline void code_query_fragment(uint32_t (&a)[4], const std::byte* rows, int kk) {
  using Rows = TileRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint2 four = *reinterpret_cast<const uint2*>(rows + Rows::at(g + 8 * h, 2 * kk + t / 2) + t % 2 * 8);
    a[h] = four.x;
    a[2 + h] = four.y;
  }
}

// Scales of 16 slots one after another, [16][kDim / 32]: a pair of those of two slots and a block.
template <int kDim>
__device__ inline uint32_t scale_pair(const std::byte* scales, int slot, int other, int block) {
  const uint16_t* from = reinterpret_cast<const uint16_t*>(scales) + block;
  constexpr int kBlocks = kDim / kQ8Block;
  return from[slot * kBlocks] | static_cast<uint32_t>(from[other * kBlocks]) << 16;
}

inline constexpr int kTileKeys = 16;  // a page is a multiple, so a tile lies in one

// The keys and values of a tile.
struct CodeTile {
  const std::byte *k, *v;
  const std::byte *k_scales, *v_scales;  // q8_0
};

// s += query · key for the keys of all tiles. fragment(a, m, kk) gives the queries.
template <DType kType, int kDim, int kCount, class F>
__device__ inline void score_codes(float (&s)[2 * kCount][4], const CodeTile (&tiles)[kCount], F&& fragment) {
  using Rows = CodeRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
  const int row = lane / 8 % 2 * 8 + lane % 8;
#pragma unroll(kDim <= 128 ? kDim / 32 : 2)
  for (int kk = 0; kk < kDim / 16; kk += 2) {
    uint32_t codes[kCount][4];  // of the first eight keys and of the others, 16 dimensions; then the next 16
    uint32_t scale[kCount][2] = {};
#pragma unroll
    for (int tile = 0; tile < kCount; ++tile) {
      load_matrices(codes[tile], tiles[tile].k + Rows::at(row, kk + lane / 16));
      if constexpr (kType == DType::kQ8_0) {
        scale[tile][0] = scale_pair<kDim>(tiles[tile].k_scales, g, g, kk / 2);
        scale[tile][1] = scale_pair<kDim>(tiles[tile].k_scales, g + 8, g + 8, kk / 2);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t q[4];
      fragment(q, 0, kk + i);
#pragma unroll
      for (int n = 0; n < 2 * kCount; ++n) {
        uint32_t low, high;
        open_codes<kType>(codes[n / 2][2 * i + n % 2], low, high);
        if constexpr (kType == DType::kQ8_0) {
          low = multiply_pairs(low, scale[n / 2][n % 2]);
          high = multiply_pairs(high, scale[n / 2][n % 2]);
        }
        multiply<false>(s[n], q, low, high);
      }
    }
  }
}

// out += weight · value for the 16 values of a tile: out[0][2n] has the even dimensions of 16n … 16n + 15, out[0][2n +
// 1] the odd ones.
template <DType kType, int kDim>
__device__ inline void add_codes(WarpRows<kDim, 1>& rows, const float (*s)[4], const CodeTile& tile) {
  using Rows = CodeRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const int row = lane / 8 % 2 * 8 + lane % 8;
  const uint32_t p[4] = {pack<false>(s[0][0], s[0][1]), pack<false>(s[0][2], s[0][3]), pack<false>(s[1][0], s[1][1]),
                         pack<false>(s[1][2], s[1][3])};
#pragma unroll
  for (int n = 0; n < kDim / 16; n += 2) {
    uint32_t codes[4];
    load_matrices_transposed(codes, tile.v + Rows::at(row, n + lane / 16));
    uint32_t scale[2] = {};
    if constexpr (kType == DType::kQ8_0) {
      scale[0] = scale_pair<kDim>(tile.v_scales, 2 * t, 2 * t + 1, n / 2);
      scale[1] = scale_pair<kDim>(tile.v_scales, 2 * t + 8, 2 * t + 9, n / 2);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t even[2], odd[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        open_codes_across<kType>(codes[2 * i + h], even[h], odd[h]);
        if constexpr (kType == DType::kQ8_0) {
          even[h] = multiply_pairs(even[h], scale[h]);
          odd[h] = multiply_pairs(odd[h], scale[h]);
        }
      }
      multiply<false>(rows.out[0][2 * (n + i)], p, even[0], even[1]);
      multiply<false>(rows.out[0][2 * (n + i) + 1], p, odd[0], odd[1]);
    }
  }
}

// The tiles' keys and values, the first at position `first`, each kApart positions behind the end of the one before.
// Two at once: their chains of products and their softmax take little longer than one's.
template <DType kType, int kDim, int kApart, int kCount, class F>
__device__ inline void attend_codes(const AttentionArgs& a, WarpRows<kDim, 1>& rows, const CodeTile (&tiles)[kCount],
                                    int first, F&& fragment) {
  float s[2 * kCount][4] = {};
  score_codes<kType, kDim, kCount>(s, tiles, fragment);
  soften<kDim, 1, kCount * kTileKeys, kApart>(a, rows, 0, s, first);
#pragma unroll
  for (int tile = 0; tile < kCount; ++tile) add_codes<kType, kDim>(rows, s + 2 * tile, tiles[tile]);
}

// 16 codes of a row from memory on their way into shared memory as f16, with the scale of their block.
template <DType kType>
struct CodePiece {
  uint4 codes = make_uint4(0, 0, 0, 0);
  uint16_t scale = 0;

  // Not `there`: zeros.
  __device__ void take(const std::byte* from, const std::byte* from_scale, bool there) {
    codes = make_uint4(0, 0, 0, 0);
    scale = 0;
    if (!there) return;
    codes = *reinterpret_cast<const uint4*>(from);
    if constexpr (kType == DType::kQ8_0) scale = *reinterpret_cast<const uint16_t*>(from_scale);
  }
  // Which 16 dimensions the piece that lies at place `piece` of row `row` has. A page's rows begin at a multiple of 16.
  template <int kDim>
  __device__ static int logical(int row, int piece) {
    return kDim % 64 == 0 ? kv_code_piece(kDim, row, piece) : piece;
  }
  // The first eight of them to `first`, the others to `second`; turned: the other way round.
  __device__ void store(std::byte* first, std::byte* second, bool turned) const {
    const uint32_t four[4] = {turned ? codes.z : codes.x, turned ? codes.w : codes.y, turned ? codes.x : codes.z,
                              turned ? codes.y : codes.w};
    uint32_t x[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      open_codes<kType>(four[i], x[2 * i], x[2 * i + 1]);
      if constexpr (kType == DType::kQ8_0) {
        const uint32_t both = scale * 0x10001u;
        x[2 * i] = multiply_pairs(x[2 * i], both);
        x[2 * i + 1] = multiply_pairs(x[2 * i + 1], both);
      }
    }
    *reinterpret_cast<uint4*>(first) = make_uint4(x[0], x[1], x[2], x[3]);
    *reinterpret_cast<uint4*>(second) = make_uint4(x[4], x[5], x[6], x[7]);
  }
};

}  // namespace ingot::cuda
