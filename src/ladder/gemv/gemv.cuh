// What the steps of gemv share.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/gemv/gemv.h"

namespace ingot::cuda::gemv_parts {

struct Product {
  const uint16_t* weight;
  int64_t stride;
  int rows, cols;
  const uint16_t* x;
  float* out;

  // Whether rows of the weight and x can be read 16 bytes at a time.
  bool is_wide() const { return cols % 8 == 0 && stride % 8 == 0; }
};

inline Product product_of(const Gemv& op, int64_t rows) {
  return {reinterpret_cast<const uint16_t*>(op.weight.data),
          op.weight.stride,
          static_cast<int>(rows),
          static_cast<int>(op.weight.cols),
          reinterpret_cast<const uint16_t*>(op.x.data),
          reinterpret_cast<float*>(op.out.data)};
}

// sum + the product of two pairs.
__device__ inline float add_pair(float sum, uint32_t a, uint32_t b) {
  sum = __fmaf_rn(__uint_as_float(a << 16), __uint_as_float(b << 16), sum);
  return __fmaf_rn(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u), sum);
}
__device__ inline float add_eight(float sum, const uint4& a, const uint4& b) {
  return add_pair(add_pair(add_pair(add_pair(sum, a.x, b.x), a.y, b.y), a.z, b.z), a.w, b.w);
}

inline constexpr int kThreads = 256, kWarps = kThreads / 32;

// A warp for each row, one value of each lane at a time.
static __global__ void __launch_bounds__(kThreads) warp_a_row(const Product p) {
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= p.rows) return;
  const uint16_t* weight = p.weight + row * p.stride;
  float sum = 0;
  for (int k = static_cast<int>(threadIdx.x) % 32; k < p.cols; k += 32)
    sum = __fmaf_rn(bf16_value(weight[k]), bf16_value(p.x[k]), sum);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) p.out[row] = sum;
}

inline void by_warps(const Product& p, const DeviceCtx& ctx) {
  if (p.rows > 0) launch(ctx, warp_a_row, {ceil_div(p.rows, kWarps), kThreads}, p);
}

}  // namespace ingot::cuda::gemv_parts
