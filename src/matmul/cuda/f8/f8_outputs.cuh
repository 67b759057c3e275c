// The tiles of f8_kernel.cuh, and how their sums become rows of outputs straight from registers: 16 bytes a lane of
// bf16, eight of float32.
#pragma once

#include "matmul/cuda/f8/f8.cuh"
#include "matmul/cuda/f8/f8_rows.cuh"
#include "matmul/cuda/wide/wide_end.cuh"

namespace ingot::cuda {

struct F8Item {
  int row, output, split;  // first row and first output of its tile
  int first, end;          // chunks
};
// Tiles in bands of 16 times their rows: what runs at a time reads as few bytes as it can out of the cache.
template <int TM, int TN>
__device__ inline F8Item f8_item(const F8Plan& plan, int index) {
  constexpr int kBand = 2048 / TM;
  const int split = index % plan.splits, tile = index / plan.splits;
  const int band = tile / (kBand * plan.cols), in = tile - band * kBand * plan.cols;
  const int rows = min(kBand, plan.rows - band * kBand);
  return {(band * kBand + in % rows) * TM, in / rows * TN, split, plan.chunks * split / plan.splits,
          plan.chunks * (split + 1) / plan.splits};
}

// A chunk of packed weights.
__device__ inline const std::byte* f8_chunk(const F8Args& args, int sixteen, int chunk) {
  const int each = args.packed_tile / 16, of = min(sixteen, args.sixteens - 1), tile = of / each;
  return args.stream.weights + ((int64_t{tile} * args.plan.chunks + chunk) * each + of - tile * each) * kF8Chunk;
}

// Of a tile's outputs, in the order of the packed rows: where they go in a row of args.to (-1: there is none), by what
// their sums are multiplied, and their bias.
template <int TN>
struct F8Outputs {
  int at[TN];
  float scale[TN];
  float bias[TN];

  __device__ void find(const F8Args& args, const F8Item& item, bool blocks, int i) {
    const int sixteen = item.output / 16 + i / 16;
    at[i] = -1;
    scale[i] = bias[i] = 0;
    if (sixteen >= args.sixteens) return;
    scale[i] = blocks ? 1.0f : reinterpret_cast<const float*>(f8_chunk(args, sixteen, 0) + kF8Codes)[i % 16];
    const PartRow of = packed_row(args.stream.map, 16, sixteen, i % 16);
    if (of.part < 0) return;
    int64_t col = of.row;
    if (args.stream.map.order != RowOrder::kGlu)
      for (int p = 0; p < of.part; ++p) col += args.stream.map.rows[p];
    at[i] = static_cast<int>(col);
    if (args.bias != nullptr) bias[i] = args.bias[col];
  }
};

// A lane has outputs f8_row_at(2t) and f8_row_at(2t + 1) of eight, which are two apart; after it two neighbours, those
// from f8_pair(t) on. By whole warps.
__device__ inline int f8_pair(int t) { return t % 2 * 4 + t / 2 * 2; }
__device__ inline void make_neighbours(int t, float& a, float& b) {
  const float other = __shfl_xor_sync(0xffffffffu, t < 2 ? b : a, 2);
  if (t < 2) {
    b = other;
  } else {
    a = other;
  }
}
// Words i of lanes t become word t of lanes i.
__device__ inline void turn_words(int t, uint32_t (&w)[4]) {
#pragma unroll
  for (int d = 1; d < 4; d <<= 1) {
    const bool upper = (t & d) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = d == 1 ? 2 * i : i, high = low + d;
      const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? w[low] : w[high], d);
      if (upper) {
        w[low] = other;
      } else {
        w[high] = other;
      }
    }
  }
}
// Eight neighbours of bf16, of which lanes had pairs as f8_pair() says.
__device__ inline uint4 in_order(const uint32_t (&w)[4]) { return make_uint4(w[0], w[2], w[1], w[3]); }

// The sums of a wave and eight of its rows, `at` its first output, to args.to.
template <int TN, int WN>
__device__ __forceinline__ void store_units(const F8Args& args, const F8Outputs<TN>& outputs, int at, int64_t row,
                                            int h, const float (&sums)[WN / 2]) {
  const int t = static_cast<int>(threadIdx.x) % 4, i0 = f8_row_at(2 * t), i1 = f8_row_at(2 * t + 1);
#pragma unroll
  for (int first = 0; first < WN / 16; first += 4) {
    uint32_t words[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float* scale = outputs.scale + at + (first + c) * 16;
      const int s = (first + c) * 8 + 2 * h;
      float a = fast_silu(sums[s] * scale[i0]) * (sums[s + 4] * scale[i0 + 8]),
            b = fast_silu(sums[s + 1] * scale[i1]) * (sums[s + 5] * scale[i1 + 8]);
      make_neighbours(t, a, b);
      words[c] = pack_bf16(a, b);
    }
    turn_words(t, words);
    const int to = outputs.at[at + (first + t) * 16];
    if (row < args.stream.rows && to >= 0) *reinterpret_cast<uint4*>(args.to.row(row) + to * 2) = in_order(words);
  }
}
template <int TN, int WN>
__device__ __forceinline__ void store_bf16(const F8Args& args, const F8Outputs<TN>& outputs, int at, int64_t row, int h,
                                           const float (&sums)[WN / 2]) {
  const int t = static_cast<int>(threadIdx.x) % 4, i0 = f8_row_at(2 * t), i1 = f8_row_at(2 * t + 1);
#pragma unroll
  for (int first = 0; first < WN / 8; first += 4) {
    uint32_t words[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) {
      const int of = at + (first + o) * 8, s = (first + o) * 4 + 2 * h;
      float a = sums[s] * outputs.scale[of + i0] + outputs.bias[of + i0],
            b = sums[s + 1] * outputs.scale[of + i1] + outputs.bias[of + i1];
      make_neighbours(t, a, b);
      words[o] = pack_bf16(a, b);
    }
    turn_words(t, words);
    if (row >= args.stream.rows) continue;
    const int of = at + (first + t) * 8, to = outputs.at[of];
    std::byte* line = args.to.row(row);
    const uint4 v = in_order(words);
    if (to >= 0 && to % 8 == 0 && outputs.at[of + 1] == to + 1 && outputs.at[of + 7] == to + 7) {
      *reinterpret_cast<uint4*>(line + to * 2) = v;
      continue;
    }
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (outputs.at[of + i] >= 0)
        reinterpret_cast<uint16_t*>(line)[outputs.at[of + i]] = static_cast<uint16_t>(w[i / 2] >> (i % 2 * 16));
  }
}
template <int TN, int WN>
__device__ __forceinline__ void store_f32(const F8Args& args, const F8Outputs<TN>& outputs, int at, int64_t row, int h,
                                          const float (&sums)[WN / 2]) {
  const int t = static_cast<int>(threadIdx.x) % 4, i0 = f8_row_at(2 * t), i1 = f8_row_at(2 * t + 1);
#pragma unroll
  for (int o = 0; o < WN / 8; ++o) {
    const int of = at + o * 8, s = o * 4 + 2 * h;
    float a = sums[s] * outputs.scale[of + i0] + outputs.bias[of + i0],
          b = sums[s + 1] * outputs.scale[of + i1] + outputs.bias[of + i1];
    make_neighbours(t, a, b);
    const int first = of + f8_pair(t), to = outputs.at[first];
    if (row >= args.stream.rows || to < 0) continue;
    float* line = reinterpret_cast<float*>(args.to.row(row));
    const float* add = reinterpret_cast<const float*>(args.residual.data != nullptr ? args.residual.row(row) : nullptr);
    if (to % 2 == 0 && outputs.at[first + 1] == to + 1) {
      float2 v = make_float2(a, b);
      if (add != nullptr) {
        const float2 more = *reinterpret_cast<const float2*>(add + to);
        v.x += more.x, v.y += more.y;
      }
      *reinterpret_cast<float2*>(line + to) = v;
      continue;
    }
    const int second = outputs.at[first + 1];
    line[to] = add != nullptr ? a + add[to] : a;
    if (second >= 0) line[second] = add != nullptr ? b + add[second] : b;
  }
}

}  // namespace ingot::cuda
