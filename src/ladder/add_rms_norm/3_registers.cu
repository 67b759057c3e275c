// The sum stays in registers; loads and stores of 16 bytes, eight values of bf16, by fewer threads with more in flight.
#include "ladder/add_rms_norm/add_rms_norm.h"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 256, kEights = 2;  // 4,096 columns

struct Eight {
  float v[8];
};

__device__ Eight load_eight(const std::byte* row, int i) {
  const uint4 u = reinterpret_cast<const uint4*>(row)[i];
  const uint32_t words[4] = {u.x, u.y, u.z, u.w};
  Eight out;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    out.v[2 * k] = __uint_as_float(words[k] << 16);
    out.v[2 * k + 1] = __uint_as_float(words[k] & 0xffff0000u);
  }
  return out;
}

__device__ void store_eight(std::byte* row, int i, const Eight& x) {
  uint4 u;
  u.x = pack_bf16(x.v[0], x.v[1]);
  u.y = pack_bf16(x.v[2], x.v[3]);
  u.z = pack_bf16(x.v[4], x.v[5]);
  u.w = pack_bf16(x.v[6], x.v[7]);
  reinterpret_cast<uint4*>(row)[i] = u;
}

__global__ void __launch_bounds__(kThreads)
    add_rms_norm(View a, View b, const float* weight, View sum, View out, float eps) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int eights = out.cols / 8, first = static_cast<int>(threadIdx.x);
  Eight v[kEights] = {}, w[kEights] = {};
#pragma unroll
  for (int j = 0; j < kEights; ++j) {
    if (first + j * kThreads >= eights) continue;
    v[j] = load_eight(a.row(r), first + j * kThreads);
    w[j] = load_eight(b.row(r), first + j * kThreads);
  }
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kEights; ++j) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      v[j].v[k] += w[j].v[k];
      squares += v[j].v[k] * v[j].v[k];
    }
    if (first + j * kThreads < eights) store_eight(sum.row(r), first + j * kThreads, v[j]);
  }
  const float inverse = inverse_root(block_sum(squares, room), out.cols, eps);
#pragma unroll
  for (int j = 0; j < kEights; ++j) {
    const int i = first + j * kThreads;
    if (i >= eights) continue;
    const auto* scale = reinterpret_cast<const std::byte*>(weight);
    const Four low = load_four(scale, 2 * i, DType::kF32), high = load_four(scale, 2 * i + 1, DType::kF32);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[j].v[k] = v[j].v[k] * inverse * (k < 4 ? low.v[k] : high.v[k - 4]);
    store_eight(out.row(r), i, v[j]);
  }
}

bool in_eights(const Tensor& t) {
  return t.dtype == DType::kBF16 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride % 8 == 0;
}

}  // namespace

void run(const AddRmsNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.out), cols = op.out.cols;
  if (rows == 0) return;
  const bool eights = in_eights(op.a) && in_eights(op.b) && in_eights(op.sum) && in_eights(op.out);
  if (!eights || !in_fours(op.weight) || cols % 8 != 0 || cols > 8 * kEights * kThreads) return cuda::run(op, ctx);
  launch(ctx, add_rms_norm, {dim3(rows), dim3(kThreads)}, View(op.a), View(op.b),
         reinterpret_cast<const float*>(op.weight.data), View(op.sum), View(op.out), op.eps);
}

}  // namespace ingot::cuda::INGOT_STEP
