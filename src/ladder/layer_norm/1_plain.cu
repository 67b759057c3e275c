// The definition: a block reads its row three times, for the mean, for the variance and for the values.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void layer_norm(View x, const float* weight, const float* bias, View out, float eps) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const auto* from = reinterpret_cast<const float*>(x.row(blockIdx.x));
  auto* to = reinterpret_cast<float*>(out.row(blockIdx.x));
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int i = first; i < x.cols; i += step) sum += from[i];
  const float mean = block_sum(sum, room) / static_cast<float>(x.cols);
  float squares = 0;
  for (int i = first; i < x.cols; i += step) squares += (from[i] - mean) * (from[i] - mean);
  const float inverse = inverse_root(block_sum(squares, room), x.cols, eps);
  for (int i = first; i < x.cols; i += step) {
    const float normal = (from[i] - mean) * inverse * weight[i];
    to[i] = bias != nullptr ? normal + bias[i] : normal;
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  launch(ctx, layer_norm, {dim3(rows), dim3(256)}, View(op.x), reinterpret_cast<const float*>(op.weight.data),
         reinterpret_cast<const float*>(op.bias.data), View(op.out), op.eps);
}

}  // namespace ingot::cuda::INGOT_STEP
