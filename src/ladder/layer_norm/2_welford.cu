// Mean and variance in one reading, by Welford's updates of each thread that are merged in pairs; 16 bytes a load.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

// Of some values: how many, their mean, and the sum of the squares of their distances from it.
struct Moments {
  float n = 0, mean = 0, squares = 0;

  __device__ void add(float x) {
    n += 1;
    const float off = x - mean;
    mean += off / n;
    squares += off * (x - mean);
  }
  __device__ void merge(const Moments& o) {
    const float all = n + o.n;
    if (all == 0) return;
    const float off = o.mean - mean, share = o.n / all;
    squares += o.squares + off * off * n * share;
    mean += off * share;
    n = all;
  }
};

__device__ Moments warp_moments(Moments m) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    Moments other;
    other.n = __shfl_down_sync(0xffffffffu, m.n, d);
    other.mean = __shfl_down_sync(0xffffffffu, m.mean, d);
    other.squares = __shfl_down_sync(0xffffffffu, m.squares, d);
    m.merge(other);
  }
  return m;
}

__global__ void layer_norm(View x, const float* weight, const float* bias, View out, float eps, bool wide) {
  __shared__ float room[3 * 32];
  let_next_begin();
  wait_for_inputs();
  const int width = x.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const int warp = first / 32, lane = first % 32;
  Moments m;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(x.row(blockIdx.x), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) m.add(v.v[k]);
  }
  m = warp_moments(m);
  if (lane == 0) {
    room[3 * warp] = m.n;
    room[3 * warp + 1] = m.mean;
    room[3 * warp + 2] = m.squares;
  }
  __syncthreads();
  m = Moments{};
  for (int w = 0; w < step / 32; ++w) {  // the same order in every thread
    Moments other;
    other.n = room[3 * w];
    other.mean = room[3 * w + 1];
    other.squares = room[3 * w + 2];
    m.merge(other);
  }
  const float inverse = inverse_root(m.squares, width, eps);
  for (int i = first; 4 * i < width; i += step) {
    Four v = get_four(x.row(blockIdx.x), i, width, DType::kF32, wide);
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
    Four b = {};
    if (bias != nullptr) b = get_four(reinterpret_cast<const std::byte*>(bias), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = (v.v[k] - m.mean) * inverse * w.v[k] + b.v[k];
    put_four(out.row(blockIdx.x), i, width, DType::kF32, wide, v);
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  launch(ctx, layer_norm, {dim3(rows), dim3(row_threads(op.x.cols))}, View(op.x),
         reinterpret_cast<const float*>(op.weight.data), reinterpret_cast<const float*>(op.bias.data), View(op.out),
         op.eps, in_fours(op.x) && in_fours(op.out) && in_fours(op.weight) && in_fours(op.bias));
}

}  // namespace ingot::cuda::INGOT_STEP
