// What the fast attention kernels share: a warp takes 16 (or 32) packed rows, each a (row, head) pair of one seq whose
// heads share a KV head, over some keys and values in shared memory. Products by matrix instructions with f32 sums,
// softmax in registers, in powers of two. The packed rows of a matrix do not see one another: a row's bits are the same
// whatever lies beside it.
#pragma once

#include "ops/attention/cuda/attention_cuda.h"

namespace ingot::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

// Rows of `kDim` 16-bit values in shared memory, for ldmatrix: multiples of 128 bytes as they lie in the cache, their
// pieces permuted; others 16 bytes apart, which spreads eight rows over all banks as well.
template <int kDim>
struct TileRows {
  static constexpr bool kPermuted = kDim % 64 == 0;
  static constexpr int kStride = 2 * kDim + (kPermuted ? 0 : 16);
  static constexpr int kPieces = kDim / 8;

  __device__ static int at(int row, int piece) {
    return row * kStride + (kPermuted ? kv_piece(row, piece) : piece) * 16;
  }
  // at(row, piece + more) from at(row, piece), where more is even and piece 0 or 1: with constants for `more`, a head
  // needs four addresses and not one for each piece.
  __device__ static int further(int at, int more) {
    return kPermuted ? (at ^ (more % 8 * 16)) + more / 8 * 128 : at + 16 * more;
  }
};

template <bool kBf16>
__device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  if constexpr (kBf16) {
    multiply_bf16(d, a, b);
  } else {
    multiply_f16(d, a, b);
  }
}
template <bool kBf16>
__device__ inline uint32_t pack(float low, float high) {
  return kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

// Eight values of another type as 16-bit ones, finite values beyond the largest of f16 as the largest.
template <bool kBf16, DType kFrom, int kWords>
__device__ inline uint4 narrow_bits(const uint4 (&bits)[kWords]) {
  static_assert(kWords == (kFrom == DType::kF32 ? 2 : 1));
  float x[8];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    const uint32_t four[4] = {bits[w].x, bits[w].y, bits[w].z, bits[w].w};
#pragma unroll
    for (int i = 0; i < 8 / kWords; ++i) {
      if constexpr (kFrom == DType::kF32) {
        x[4 * w + i] = __uint_as_float(four[i]);
      } else {
        const auto half = static_cast<uint16_t>(four[i / 2] >> (i % 2 * 16));
        x[i] = kFrom == DType::kBF16 ? bf16_value(half) : f16_value(half);
      }
    }
  }
  if (!kBf16)
    for (float& value : x) value = fminf(fmaxf(value, -65504.0f), 65504.0f);
  return make_uint4(pack<kBf16>(x[0], x[1]), pack<kBf16>(x[2], x[3]), pack<kBf16>(x[4], x[5]), pack<kBf16>(x[6], x[7]));
}

// The same from memory, of the type that `dtype` says. One or two loads: prompts' queries took as long as all their
// products where each value had its own. REQUIRES: at 16 bytes.
template <bool kBf16>
__device__ inline uint4 narrow_eight(const std::byte* from, DType dtype) {
  const auto* words = reinterpret_cast<const uint4*>(from);
  if (dtype == DType::kF32) {
    const uint4 bits[2] = {words[0], words[1]};
    return narrow_bits<kBf16, DType::kF32>(bits);
  }
  const uint4 bits[1] = {words[0]};
  return dtype == DType::kBF16 ? narrow_bits<kBf16, DType::kBF16>(bits) : narrow_bits<kBf16, DType::kF16>(bits);
}

// The packed rows [first, first + count) of a seq and KV head into shared memory in the cache's type; zeros from `end`
// on. By all of the block's threads.
template <bool kBf16, int kDim>
__device__ void load_queries(const AttentionArgs& a, std::byte* to, int q_begin, int kv_head, int first, int count,
                             int end) {
  constexpr int kPieces = kDim / 8;
  constexpr DType kType = kBf16 ? DType::kBF16 : DType::kF16;
  for (int i = static_cast<int>(threadIdx.x); i < count * kPieces; i += static_cast<int>(blockDim.x)) {
    const int row = i / kPieces, piece = i % kPieces, packed = first + row;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (packed < end) {
      const int64_t column = static_cast<int64_t>(kv_head * a.group + packed % a.group) * kDim + piece * 8;
      const std::byte* from = a.q.row(q_begin + packed / a.group);
      if (a.q.dtype == kType) {
        bits = *reinterpret_cast<const uint4*>(from + column * 2);
      } else {
        bits = narrow_eight<kBf16>(from + column * (a.q.dtype == DType::kF32 ? 4 : 2), a.q.dtype);
      }
    }
    *reinterpret_cast<uint4*>(to + TileRows<kDim>::at(row, piece)) = bits;
  }
}

// Column block kk (16 columns) of 16 packed rows as the A operand.
template <int kDim>
__device__ inline void query_fragment(uint32_t (&a)[4], const std::byte* rows, int kk) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  using Rows = TileRows<kDim>;
  load_matrices(a, rows + Rows::further(Rows::at(lane % 16, lane / 16), 2 * kk));
}

// One warp's packed rows. Lane (g, t) holds rows g and g + 8 of each of the kTiles tiles.
template <int kDim, int kTiles>
struct WarpRows {
  // Columns 8n + 2t, 8n + 2t + 1 of the sum of weight · value, row g and then row g + 8.
  float out[kTiles][kDim / 8][4];
  float top[kTiles][2];  // largest score so far, in powers of two
  float sum[kTiles][2];  // of the weights, this lane's keys alone
  // The last position that a row sees; positions that all rows of the warp see, both ends included; the last that any
  // does.
  int last[kTiles][2];
  int all_last, all_lowest, any_last;

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[m][n][i] = 0;
      }
      top[m][0] = top[m][1] = -INFINITY;
      sum[m][0] = sum[m][1] = 0;
    }
  }
  // Rows from `end` on (padding) see whatever is there.
  __device__ void find_positions(const AttentionArgs& a, int q_begin, int first, int end, int keys_end) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    all_last = keys_end - 1;
    all_lowest = 0;
    any_last = -1;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int packed = first + 16 * m + 8 * h + g;
        const int at = packed < end ? a.position[q_begin + packed / a.group] : -1;
        last[m][h] = packed < end ? at : keys_end - 1;
        all_last = min(all_last, last[m][h]);
        if (a.window > 0) all_lowest = max(all_lowest, at - a.window + 1);
        any_last = max(any_last, at);
      }
    }
#pragma unroll
    for (int d = 4; d < 32; d <<= 1) {
      all_last = min(all_last, __shfl_xor_sync(0xffffffffu, all_last, d));
      all_lowest = max(all_lowest, __shfl_xor_sync(0xffffffffu, all_lowest, d));
      any_last = max(any_last, __shfl_xor_sync(0xffffffffu, any_last, d));
    }
  }
};

// A score through the soft cap, in powers of two.
__device__ inline float capped(const AttentionArgs& a, float x) {
  return a.softcap * kLog2E * tanhf(x * a.scale / a.softcap);
}

// Scores of one tile of packed rows become weights; the sums of values are brought to the new largest score. The keys
// follow one another from position `first` on, each 16 of them kApart positions behind the 16 before.
template <int kDim, int kTiles, int kKeys, int kApart = 0>
__device__ inline void soften(const AttentionArgs& a, WarpRows<kDim, kTiles>& rows, int m, float (&s)[kKeys / 8][4],
                              int first) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  if (a.softcap > 0) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = capped(a, s[n][i]);
    }
  }
  const bool masked = first + kKeys - 1 + (kKeys / 16 - 1) * kApart > rows.all_last || first < rows.all_lowest;
  const float scale = a.softcap > 0 ? 1.0f : a.scale_log2;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = rows.top[m][h];
    const int last = rows.last[m][h], lowest = a.window > 0 ? last - a.window + 1 : 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[n][2 * h + c];
        x *= scale;
        const int p = first + 8 * n + n / 2 * kApart + 2 * t + c;
        if (masked && (p > last || p < lowest)) x = -INFINITY;
        top = fmaxf(top, x);
      }
    }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0.0f : top;
    factor[h] = fast_exp2(rows.top[m][h] - base);
    rows.top[m][h] = top;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) sum += s[n][2 * h + c] = fast_exp2(s[n][2 * h + c] - base);
    }
    rows.sum[m][h] = fmaf(rows.sum[m][h], factor[h], sum);
  }
  // The largest score grows seldom after the first keys; a product with 1 would change nothing.
  if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      rows.out[m][n][0] *= factor[0];
      rows.out[m][n][1] *= factor[0];
      rows.out[m][n][2] *= factor[1];
      rows.out[m][n][3] *= factor[1];
    }
  }
}

// s += query · key for kKeys keys in shared memory. fragment(a, m, kk) gives the queries.
template <bool kBf16, int kDim, int kTiles, int kKeys, class F>
__device__ inline void score_keys(float (&s)[kTiles][kKeys / 8][4], const std::byte* k, F&& fragment) {
  using Rows = TileRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int mine = Rows::at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  // Unrolled as a whole, a head of 256 keeps so many addresses that registers run out.
#pragma unroll(kDim <= 128 ? kDim / 16 : 4)
  for (int kk = 0; kk < kDim / 16; ++kk) {
    uint32_t q[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) fragment(q[m], m, kk);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t b[4];  // keys 16n … 16n + 7 and the eight after them, two blocks of eight columns each
      load_matrices(b, k + Rows::further(mine, 2 * kk) + 16 * n * Rows::kStride);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        multiply<kBf16>(s[m][2 * n], q[m], b[0], b[1]);
        multiply<kBf16>(s[m][2 * n + 1], q[m], b[2], b[3]);
      }
    }
  }
}

// out += weight · value for kKeys values in shared memory.
template <bool kBf16, int kDim, int kTiles, int kKeys>
__device__ inline void add_values(WarpRows<kDim, kTiles>& rows, const float (&s)[kTiles][kKeys / 8][4],
                                  const std::byte* v) {
  using Rows = TileRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32, mine = Rows::at(lane % 16, lane / 16);
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) {
    uint32_t p[kTiles][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      p[m][0] = pack<kBf16>(s[m][2 * j][0], s[m][2 * j][1]);
      p[m][1] = pack<kBf16>(s[m][2 * j][2], s[m][2 * j][3]);
      p[m][2] = pack<kBf16>(s[m][2 * j + 1][0], s[m][2 * j + 1][1]);
      p[m][3] = pack<kBf16>(s[m][2 * j + 1][2], s[m][2 * j + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];  // keys 16j … 16j + 15 of eight columns, and of the eight after them
      load_matrices_transposed(b, v + Rows::further(mine, 2 * n) + 16 * j * Rows::kStride);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        multiply<kBf16>(rows.out[m][2 * n], p[m], b[0], b[1]);
        multiply<kBf16>(rows.out[m][2 * n + 1], p[m], b[2], b[3]);
      }
    }
  }
}

// kKeys keys and values in shared memory, the first at position `first`. fragment(a, m, kk) gives the queries.
template <bool kBf16, int kDim, int kTiles, int kKeys, class F>
__device__ inline void attend_keys(const AttentionArgs& a, WarpRows<kDim, kTiles>& rows, const std::byte* k,
                                   const std::byte* v, int first, F&& fragment) {
  float s[kTiles][kKeys / 8][4] = {};
  score_keys<kBf16, kDim, kTiles, kKeys>(s, k, fragment);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) soften<kDim, kTiles, kKeys>(a, rows, m, s[m], first);
  add_values<kBf16, kDim, kTiles, kKeys>(rows, s, v);
}

// Results of two sets of keys of one row, (top, sum, x): the second is merged into the first. The same bits wherever it
// is called.
struct Merge {
  float old_factor, new_factor, top;
  __device__ Merge(float old_top, float new_top) {
    top = fmaxf(old_top, new_top);
    const float base = top == -INFINITY ? 0.0f : top;
    old_factor = fast_exp2(old_top - base);
    new_factor = fast_exp2(new_top - base);
  }
  __device__ float operator()(float old_x, float new_x) const { return fmaf(new_x, new_factor, old_x * old_factor); }
};

// What a row's sum of values is multiplied by at the end, its sink included.
__device__ inline float last_factor(const AttentionArgs& a, int head, float top, float sum) {
  if (a.sinks == nullptr) return 1.0f / sum;
  const Merge with_sink(top, a.sinks[head] * kLog2E);
  return with_sink.old_factor / with_sink(sum, 1.0f);
}

}  // namespace ingot::cuda
