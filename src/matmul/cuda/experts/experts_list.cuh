// The list of places by expert, made by one block.
#pragma once

#include "matmul/cuda/experts/experts.cuh"

namespace ingot::cuda {

// Words of 32 rows that the block looks at together: 64 KB of bits.
__host__ __device__ constexpr int list_words(int count) {
  const int words = 16384 / count;
  return words > 32 ? 32 : words < 1 ? 1 : words;
}
// Shared memory for `count` experts.
constexpr int64_t list_shared(int count) { return 256 + int64_t{count} * (1 + list_words(count)) * 4; }

namespace detail {

// next[e], how many places the expert has, becomes the first of them in the list; tiles are written.
__device__ inline void deal_tiles(int count, int tile, const ExpertList& list, int32_t* next, uint64_t* totals) {
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  uint64_t before = 0;  // tiles in the upper half, places in the lower
  for (int base = 0; base < count; base += threads) {
    const int e = base + thread, own = e < count ? next[e] : 0;
    uint64_t sum = static_cast<uint64_t>((own + tile - 1) / tile) << 32 | static_cast<uint32_t>(own);
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const uint64_t other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += other;
    }
    if (lane == 31) totals[thread / 32] = sum;
    __syncthreads();
    uint64_t first = before + sum;
    for (int w = 0; w < threads / 32; ++w) {
      if (w < thread / 32) first += totals[w];
      before += totals[w];
    }
    const int last_place = static_cast<int>(first & 0xffffffffu), place = last_place - own;
    int at = static_cast<int>(first >> 32) - (own + tile - 1) / tile;
    if (e < count) next[e] = place;
    for (int i = 0; i < own; i += tile) list.tiles[at++] = {e, place + i, own - i < tile ? own - i : tile, 0};
    __syncthreads();
  }
  if (thread == 0) *list.n_tiles = static_cast<int32_t>(before >> 32);
}

}  // namespace detail

// Of one row, whose experts are in order: nothing is to be sorted. By one warp.
template <class Expert>
__device__ void make_list_of_one(int used, const ExpertList& list, Expert&& expert_of) {
  for (int j = static_cast<int>(threadIdx.x) % 32; j < used; j += 32) {
    list.place[j] = j;
    list.tiles[j] = {expert_of(0, j), j, 1, 0};
    if (j == 0) *list.n_tiles = used;
  }
}

// By all threads of a block, whole warps, for rows [0, rows). A row's experts are different ones. Where a place comes
// in its expert's row is the number of rows before that have the expert too: counted in bits, so that no order of
// threads matters. `room`: list_shared() bytes of shared memory.
// expert(row, j): the row's j-th.
template <class Expert>
__device__ void make_list(const ExpertChoice& choice, int rows, int tile, const ExpertList& list, std::byte* room,
                          Expert&& expert_of) {
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int count = choice.count, used = choice.used, words = min(list_words(count), max(1, (rows + 31) / 32));
  const int span = words * 32;
  uint64_t* totals = reinterpret_cast<uint64_t*>(room);
  int32_t* next = reinterpret_cast<int32_t*>(room + 256);
  uint32_t* has = reinterpret_cast<uint32_t*>(next + count);  // [count][words] a bit for each row
  const auto expert = [&](int row, int p) { return expert_of(row, p - row * used); };
  for (int i = thread; i < count * (1 + words); i += threads) next[i] = 0;
  __syncthreads();
  for (int p = thread; p < rows * used; p += threads) {
    const int row = p / used, e = expert(row, p);
    atomicAdd(next + e, 1);
    if (row < span) atomicOr(has + e * words + row / 32, 1u << row % 32);
  }
  __syncthreads();
  detail::deal_tiles(count, tile, list, next, totals);
  for (int begin = 0; begin < rows; begin += span) {
    const int end = rows - begin < span ? rows : begin + span;
    if (begin > 0) {
      for (int e = thread; e < count; e += threads) {
        for (int w = 0; w < words; ++w) {
          next[e] += __popc(has[e * words + w]);
          has[e * words + w] = 0;
        }
      }
      __syncthreads();
      for (int p = begin * used + thread; p < end * used; p += threads) {
        const int row = p / used;
        atomicOr(has + expert(row, p) * words + (row - begin) / 32, 1u << (row - begin) % 32);
      }
      __syncthreads();
    }
    for (int p = begin * used + thread; p < end * used; p += threads) {
      const int row = p / used, e = expert(row, p), at = row - begin;
      const uint32_t* bits = has + e * words;
      int rank = __popc(bits[at / 32] & ((1u << at % 32) - 1));
      for (int w = 0; w < at / 32; ++w) rank += __popc(bits[w]);
      list.place[next[e] + rank] = p;
    }
    __syncthreads();
  }
}

}  // namespace ingot::cuda
