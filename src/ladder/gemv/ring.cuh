// A product whose rows come by bulk copies into a ring of each warp, a part of a row at a time: a warp has the same
// columns of every row, and their values of x as floats in registers.
#pragma once

#include <algorithm>

#include "ladder/gemv/gemv.cuh"

namespace ingot::cuda::gemv_parts {

// Of a block: kWarps_ warps, kParts of them for a row, kStages parts of each in flight; kBlocks on a multiprocessor.
template <int kWarps_, int kParts_, int kStages_, int kBlocks_>
struct RowRing {
  static constexpr int kWarps = kWarps_, kParts = kParts_, kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kGroups = kWarps / kParts;  // rows at a time
  static constexpr int kMostCols = 4096, kPieces = kMostCols / kParts / 256, kMostRows = 512;
  static constexpr int kPart = kMostCols / kParts;
  static constexpr int kSums = kWarps * kStages * kPart * 2, kBarriers = kSums + kMostRows * kParts * 4;
  static constexpr int64_t kShared = kBarriers + kWarps * kStages * static_cast<int64_t>(sizeof(CopyBarrier));
};

// Both values of a pair.
__device__ inline void split_pair(uint32_t pair, float (&to)[2]) {
  to[0] = __uint_as_float(pair << 16);
  to[1] = __uint_as_float(pair & 0xffff0000u);
}

// A lane's columns of x as floats, zeros from `cols` on.
template <int kPieces>
__device__ inline void load_columns(const uint16_t* from, int cols, int lane, float (&x)[kPieces][8]) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int k = 8 * (32 * i + lane);
    const uint4 v = k < cols ? *reinterpret_cast<const uint4*>(from + k) : make_uint4(0, 0, 0, 0);
    const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float two[2];
      split_pair(pairs[e], two);
      x[i][2 * e] = two[0];
      x[i][2 * e + 1] = two[1];
    }
  }
}

// Block b has rows b, b + gridDim.x …: every block as many as the others, to one. Their parts' sums stay in shared
// memory until all are there, so warps never wait for each other.
template <class R>
__global__ void __launch_bounds__(R::kWarps * 32, R::kBlocks) ring_gemv(const Product p) {
  let_next_begin();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int part = warp % R::kParts, group = warp / R::kParts, cols = p.cols / R::kParts;
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  auto* ring = shared_memory<std::byte>() + warp * R::kStages * R::kPart * 2;
  auto* sums = reinterpret_cast<float*>(shared_memory<std::byte>() + R::kSums);
  auto* full = reinterpret_cast<CopyBarrier*>(shared_memory<std::byte>() + R::kBarriers) + warp * R::kStages;
  const int rows = (p.rows - block + blocks - 1) / blocks;
  const uint16_t* from = p.weight + block * p.stride + part * cols;
  const auto give = [&](int row, int stage) {
    barrier_expect(full + stage, static_cast<uint32_t>(cols) * 2);
    copy_bulk(ring + stage * R::kPart * 2, from + row * blocks * p.stride, static_cast<uint32_t>(cols) * 2,
              full + stage);
  };
  if (lane == 0) {
    for (int s = 0; s < R::kStages; ++s) barrier_init(full + s, 1);
    barrier_inits_done();
    for (int s = 0; s < R::kStages; ++s)  // the weight is nobody's output: no wait for inputs
      if (group + s * R::kGroups < rows) give(group + s * R::kGroups, s);
  }
  __syncwarp();
  wait_for_inputs();
  float x[R::kPieces][8];
  load_columns(p.x + part * cols, cols, lane, x);
  int stage = 0;
  uint32_t parity = 0;
  for (int row = group; row < rows; row += R::kGroups) {
    barrier_wait(full + stage, parity);
    const auto* w = reinterpret_cast<const uint4*>(ring + stage * R::kPart * 2) + lane;
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < R::kPieces; ++i) {
      if (8 * (32 * i + lane) >= cols) continue;
      const uint4 v = w[32 * i];
      const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float two[2];
        split_pair(pairs[e], two);
        sum[e] = __fmaf_rn(two[1], x[i][2 * e + 1], __fmaf_rn(two[0], x[i][2 * e], sum[e]));
      }
    }
    __syncwarp();
    if (lane == 0 && row + R::kStages * R::kGroups < rows) give(row + R::kStages * R::kGroups, stage);
    const float all = warp_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (lane == 0) sums[row * R::kParts + part] = all;
    if (++stage == R::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += R::kWarps * 32) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < R::kParts; ++i) sum += sums[row * R::kParts + i];
    p.out[block + row * blocks] = sum;
  }
}

// False: not on this device, or not such a product.
template <class R>
bool run_ring(const Product& p, const DeviceCtx& ctx) {
  if (ctx.arch < 90 || ctx.arch >= 120 || p.cols == 0 || p.cols > R::kMostCols || p.cols % (8 * R::kParts) != 0 ||
      p.stride % 8 != 0)
    return false;
  const int64_t resident = int64_t{ctx.multiprocessors} * R::kBlocks;
  const int64_t blocks = std::max(std::min<int64_t>(resident, p.rows), ceil_div(p.rows, R::kMostRows));
  if (p.rows > 0) launch(ctx, ring_gemv<R>, {blocks, R::kWarps * 32, R::kShared}, p);
  return true;
}

}  // namespace ingot::cuda::gemv_parts
