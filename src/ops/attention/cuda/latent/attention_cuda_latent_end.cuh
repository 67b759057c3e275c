// What becomes of the results of a block of attend_latent().
#pragma once

#include "cuda/blocks.cuh"
#include "ops/attention/cuda/attention_cuda_parts.cuh"

namespace ingot::cuda {

// One warp's part: rows g and g + 8 of its 16, all keys' sums of its columns.
template <class S>
struct LatentWarp {
  float out[S::kSideCols / 8][4];
  float top[2], sum[2];  // of all keys; of this lane's keys
  int last[2];           // the last position that a row sees

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < S::kSideCols / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = 0;
    }
    top[0] = top[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }
};

// The block's results: to their rows, or to where the last block of the unit finds them, which merges.
template <class S>
__device__ void leave_latents(const AttentionArgs& a, const SplitItem& item, const LatentWarp<S>& rows,
                              std::byte* shared, int tile, int side) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float* sums = reinterpret_cast<float*>(shared + S::kSums) + 16 * tile;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = rows.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (t == 0) sums[side * S::kPacked + 8 * h + g] = sum;
  }
  __syncthreads();
  const bool alone = item.n_splits == 1;
  const Part part(a, S::kPacked, S::kRank, item.part + item.split);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = 16 * tile + 8 * h + g, packed = item.first + row;
    if (packed >= item.end) continue;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < S::kSides; ++i) sum += sums[i * S::kPacked + 8 * h + g];
    const int head = packed % a.group;
    const float factor = alone ? last_factor(a, head, rows.top[h], sum) : 1.0f;
    if (!alone && side == 0 && t == 0) {
      part.tops[row] = rows.top[h];
      part.sums[row] = sum;
    }
    const int64_t column = static_cast<int64_t>(side) * S::kSideCols + 2 * t;
#pragma unroll
    for (int n = 0; n < S::kSideCols / 8; ++n) {
      const float x = rows.out[n][2 * h] * factor, y = rows.out[n][2 * h + 1] * factor;
      if (!alone) {
        *reinterpret_cast<float2*>(part.x + static_cast<int64_t>(row) * S::kRank + column + 8 * n) = make_float2(x, y);
        continue;
      }
      const int64_t to = static_cast<int64_t>(head) * S::kRank + column + 8 * n;
      a.out.set(item.q_begin + packed / a.group, to, x);
      a.out.set(item.q_begin + packed / a.group, to + 1, y);
    }
  }
  if (alone) return;
  if (last_to_arrive(a.tickets + static_cast<int64_t>(item.seq) * gridDim.y + blockIdx.y, item.n_splits,
                     reinterpret_cast<uint32_t*>(shared + S::kFlag)))
    merge_parts<S>(a, item, 0, item.end - item.first);
}

// The same for blocks of 16 rows, through shared memory: each of a cluster's merges its share of the rows.
template <class S>
__device__ void meet_latents(const AttentionArgs& a, const SplitItem& item, const LatentWarp<S>& rows,
                             std::byte* shared, int side) {
  constexpr int kMostBlocks = 8, kQuads = S::kRank / 4;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4,
            thread = static_cast<int>(threadIdx.x);
  float* results = reinterpret_cast<float*>(shared + S::kRing);
  float* tops = reinterpret_cast<float*>(shared + S::kTops);  // [16], then the sums of all sides
  float* sums = reinterpret_cast<float*>(shared + S::kSums);
  __syncthreads();  // all keys are read
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = 8 * h + g;
    float sum = rows.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (t == 0) sums[side * S::kPacked + row] = sum;
    if (t == 0 && side == 0) tops[row] = rows.top[h];
    float* to = results + row * S::kResultStride + side * S::kSideCols + 2 * t;
#pragma unroll
    for (int n = 0; n < S::kSideCols / 8; ++n)
      *reinterpret_cast<float2*>(to + 8 * n) = make_float2(rows.out[n][2 * h], rows.out[n][2 * h + 1]);
  }
  __syncthreads();
  if (thread < S::kPacked) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < S::kSides; ++i) sum += sums[i * S::kPacked + thread];
    tops[S::kPacked + thread] = sum;
  }
  const int blocks = 1 << a.cluster_bits, rank = a.cluster_bits > 0 ? cluster_rank() : 0;
  if (blocks > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  const auto of_block = [&](float* mine, int block) { return block == rank ? mine : of_cluster(mine, block); };
  const int share = S::kPacked >> a.cluster_bits, begin = rank * share,
            count = min(share, item.end - item.first - begin);
  const bool alone = item.n_splits == 1;
  const Part part(a, S::kPacked, S::kRank, item.part + item.split);
  for (int i = thread; i < count * kQuads; i += S::kThreads) {
    const int row = begin + i / kQuads, column = i % kQuads * 4, packed = item.first + row;
    float of_top[kMostBlocks], of_sum[kMostBlocks];
    float4 of_x[kMostBlocks];
    float top = -INFINITY, sum = 0;
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      of_top[b] = -INFINITY;
      if (b >= blocks) continue;
      of_top[b] = *of_block(tops + row, b);
      of_sum[b] = *of_block(tops + S::kPacked + row, b);
      of_x[b] = *reinterpret_cast<const float4*>(of_block(results + row * S::kResultStride + column, b));
      top = fmaxf(top, of_top[b]);
    }
    float4 x = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      if (of_top[b] == -INFINITY) continue;
      const float factor = fast_exp2(of_top[b] - top);
      sum = fmaf(of_sum[b], factor, sum);
      x = make_float4(fmaf(of_x[b].x, factor, x.x), fmaf(of_x[b].y, factor, x.y), fmaf(of_x[b].z, factor, x.z),
                      fmaf(of_x[b].w, factor, x.w));
    }
    if (alone) {
      store_result(a, item, packed, column, x, last_factor(a, packed % a.group, top, sum));
      continue;
    }
    *reinterpret_cast<float4*>(part.x + row * S::kRank + column) = x;
    if (column == 0) {
      part.tops[row] = top;
      part.sums[row] = sum;
    }
  }
  if (blocks > 1) cluster_sync();  // no block ends while another reads its results
  if (alone) return;
  const int64_t unit = static_cast<int64_t>(item.seq) * gridDim.y + blockIdx.y;
  if (last_to_arrive(a.tickets + (unit << a.cluster_bits) + rank, item.n_splits,
                     reinterpret_cast<uint32_t*>(shared + S::kFlag)))
    merge_parts<S>(a, item, begin, count);
}

}  // namespace ingot::cuda
