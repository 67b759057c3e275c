// Four blocks for each row, a cluster that shares its sums: shorter rows for each, so more blocks at a time.
#include "cuda/blocks.cuh"
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kBlocks = 4, kThreads = 256, kFours = 4;  // up to 16,384 columns

// The sum over the cluster, in the order of its blocks; `place` is read by all of them until the next cluster_sync().
__device__ float cluster_sum(float x, float* room, float* place) {
  x = block_sum(x, room);
  if (threadIdx.x == 0) *place = x;
  cluster_sync();
  float all = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) all += *of_cluster(place, b);
  return all;
}

__global__ void __launch_bounds__(kThreads)
    layer_norm(View x, const float* weight, const float* bias, View out, float eps, bool wide) {
  auto* room = shared_memory<float>();  // 32 for sums of the block, then two for the cluster's
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x / kBlocks;
  const int width = x.cols, first = cluster_rank() * kThreads + static_cast<int>(threadIdx.x);
  constexpr int kStep = kBlocks * kThreads;
  Four v[kFours];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) v[j] = get_four(x.row(r), first + j * kStep, width, DType::kF32, wide);
#pragma unroll
  for (int j = 0; j < kFours; ++j) sum += (v[j].v[0] + v[j].v[1]) + (v[j].v[2] + v[j].v[3]);
  const float mean = cluster_sum(sum, room, room + 32) / static_cast<float>(width);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[j].v[k] -= mean;
      if (4 * (first + j * kStep) + k < width) squares += v[j].v[k] * v[j].v[k];
    }
  }
  const float inverse = inverse_root(cluster_sum(squares, room, room + 33), width, eps);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = first + j * kStep;
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
    Four b = {};
    if (bias != nullptr) b = get_four(reinterpret_cast<const std::byte*>(bias), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v[j].v[k] = v[j].v[k] * inverse * w.v[k] + b.v[k];
    put_four(out.row(r), i, width, DType::kF32, wide, v[j]);
  }
  cluster_sync();  // others read this block's sums
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  if (cols > 4 * kFours * kBlocks * kThreads || ctx.arch < 90) return cuda::run(op, ctx);
  const bool wide = in_fours(op.x) && in_fours(op.out) && in_fours(op.weight) && in_fours(op.bias);
  launch_clusters(ctx, kBlocks, layer_norm, {dim3(kBlocks * rows), dim3(kThreads), 34 * 4}, View(op.x),
                  reinterpret_cast<const float*>(op.weight.data), reinterpret_cast<const float*>(op.bias.data),
                  View(op.out), op.eps, wide);
}

}  // namespace ingot::cuda::INGOT_STEP
