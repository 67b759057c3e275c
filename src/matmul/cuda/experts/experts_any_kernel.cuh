// Experts whose weights are read as they are published: decoded to f32 in shared memory as they are needed, as
// linear_any() of any_cuda.cu. An output is a sum of sums of a stage's columns, the same for every tile that its row
// may be in.
#pragma once

#include "matmul/cuda/experts/experts.cuh"

namespace ingot::cuda {
namespace {

template <class F>
__global__ void __launch_bounds__(kStageThreads, F::kBlock > 64 ? 1 : 2)
    experts_any(const __grid_constant__ AnyExpertsRun run) {
  constexpr int kCols = kStageCols<F>;
  constexpr int kRowThreads = kStageThreads / kAnyTile;  // of one place
  constexpr int kEach = kStageOutputs / kRowThreads;     // outputs of a thread
  float* w = shared_memory<float>();
  float* staged = w + kStageOutputs * (kCols + 1);
  let_next_begin();
  wait_for_inputs();
  if (static_cast<int>(blockIdx.y) >= *run.list.n_tiles) return;
  const ExpertTile tile = run.list.tiles[blockIdx.y];
  const WeightView weight = run.published.weights[tile.expert];
  const int32_t* place = run.list.place + tile.first;
  const int64_t n0 = int64_t{blockIdx.x} * kStageOutputs;
  const int n_of = static_cast<int>(threadIdx.x) % kRowThreads, m = static_cast<int>(threadIdx.x) / kRowThreads;
  float total[kEach] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    for (int i = static_cast<int>(threadIdx.x); i < tile.count * kCols; i += kStageThreads) {
      const int p = place[i / kCols];
      const int64_t c = col + i % kCols;
      float value = c < weight.cols ? run.x.get(p / run.per_row, c) : 0.0f;
      if (run.scale.data != nullptr) value *= run.scale.get(p / run.used, p % run.used);
      staged[i / kCols * (kCols + 1) + i % kCols] = value;
    }
    __syncthreads();
    if (m < tile.count) {
      float sum[kEach] = {};
      const float* xs = staged + m * (kCols + 1);
#pragma unroll 8
      for (int k = 0; k < kCols; ++k) {
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          sum[j] = __fmaf_rn(xs[k], w[(n_of + j * kRowThreads) * (kCols + 1) + k], sum[j]);
      }
#pragma unroll
      for (int j = 0; j < kEach; ++j) total[j] += sum[j];
    }
    __syncthreads();
  }
  // Through shared memory: the end is written once, and not kEach times for every activation.
#pragma unroll
  for (int j = 0; j < kEach; ++j) w[m * kStageOutputs + n_of + j * kRowThreads] = total[j];
  __syncthreads();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < tile.count * kStageOutputs; i += kStageThreads) {
    const int p = place[i / kStageOutputs];
    const int64_t n = n0 + i % kStageOutputs;
    if (n >= weight.rows) continue;
    float value = w[i];
    if (run.bias != nullptr) value += run.bias[tile.expert * weight.rows + n];
    if (run.glu != ActivationKind::kNone) value = gated_by(run.glu, run.out.get(p, n), value);
    run.out.set(p, n, value);
  }
}

}  // namespace

template <class F>
void run_any_format(const AnyExpertsRun& run, const DeviceCtx& ctx) {
  static_assert(kStageOutputs * (kStageCols<F> + 1) >= kAnyTile * kStageOutputs);
  constexpr int64_t kShared = int64_t{kStageOutputs + kAnyTile} * (kStageCols<F> + 1) * 4;
  launch(ctx, experts_any<F>,
         {dim3(ceil_div(run.published.rows, kStageOutputs), run.most_tiles), dim3(kStageThreads), kShared}, run);
}

#define INGOT_ANY_EXPERTS(NAME) template void run_any_format<NAME>(const AnyExpertsRun&, const DeviceCtx&);

}  // namespace ingot::cuda
