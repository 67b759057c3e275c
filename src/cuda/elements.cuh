// What kernels that work element by element, or row by row, share: four values at a time where addresses allow it.
#pragma once

#include <algorithm>

#include "cuda/kernel.cuh"
#include "quant/weight.h"
#include "tensor/tensor.h"

namespace ingot::cuda {

// Whether four values from a column that is a multiple of four can be read and written at once in every row.
inline bool in_fours(const Tensor& t) {
  const int64_t bytes = 4 * dtype_bytes(t.dtype);
  return reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(bytes) == 0 && t.stride % 4 == 0;
}

inline bool in_fours(const View& v) {
  const int64_t bytes = 4 * dtype_bytes(v.dtype);
  return reinterpret_cast<uintptr_t>(v.data) % static_cast<uintptr_t>(bytes) == 0 && v.stride % 4 == 0;
}

inline bool in_fours(const Weight& f32) { return reinterpret_cast<uintptr_t>(f32.data) % 16 == 0; }

struct Four {
  float v[4];
};

// The values [4i, 4i + 4) of a row. REQUIRES: in_fours().
__device__ inline Four load_four(const std::byte* row, int64_t i, DType dtype) {
  if (dtype == DType::kF32) {
    const uint4 u = reinterpret_cast<const uint4*>(row)[i];
    return {{__uint_as_float(u.x), __uint_as_float(u.y), __uint_as_float(u.z), __uint_as_float(u.w)}};
  }
  const uint2 u = reinterpret_cast<const uint2*>(row)[i];
  if (dtype == DType::kBF16)
    return {{__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u), __uint_as_float(u.y << 16),
             __uint_as_float(u.y & 0xffff0000u)}};
  return {{f16_value(static_cast<uint16_t>(u.x & 0xffffu)), f16_value(static_cast<uint16_t>(u.x >> 16)),
           f16_value(static_cast<uint16_t>(u.y & 0xffffu)), f16_value(static_cast<uint16_t>(u.y >> 16))}};
}
__device__ inline void store_four(std::byte* row, int64_t i, DType dtype, const Four& x) {
  if (dtype == DType::kF32) {
    uint4 u;
    u.x = __float_as_uint(x.v[0]);
    u.y = __float_as_uint(x.v[1]);
    u.z = __float_as_uint(x.v[2]);
    u.w = __float_as_uint(x.v[3]);
    reinterpret_cast<uint4*>(row)[i] = u;
    return;
  }
  const bool bf16 = dtype == DType::kBF16;
  uint2 u;
  u.x = bf16 ? pack_bf16(x.v[0], x.v[1]) : pack_f16(x.v[0], x.v[1]);
  u.y = bf16 ? pack_bf16(x.v[2], x.v[3]) : pack_f16(x.v[2], x.v[3]);
  reinterpret_cast<uint2*>(row)[i] = u;
}

// The same wherever the row lies and however long it is: values from `cols` on are 0 and are not written.
__device__ inline Four get_four(const std::byte* row, int64_t i, int64_t cols, DType dtype, bool wide) {
  if (wide && 4 * i + 4 <= cols) return load_four(row, i, dtype);
  Four x = {};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (4 * i + k < cols) x.v[k] = load_value(row, 4 * i + k, dtype);
  return x;
}
__device__ inline void put_four(std::byte* row, int64_t i, int64_t cols, DType dtype, bool wide, const Four& x) {
  if (wide && 4 * i + 4 <= cols) return store_four(row, i, dtype, x);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (4 * i + k < cols) store_value(row, 4 * i + k, dtype, x.v[k]);
}

// out = f(a), or f(a, b) where F::kInputs is 2, for every element. `out` may be a or b.
template <class F>
__global__ void each_value(View out, View a, View b, int64_t rows, bool wide, F f) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (4 * i >= out.cols) return;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Four x = get_four(a.row(r), i, out.cols, a.dtype, wide);
    if constexpr (F::kInputs == 2) {
      const Four y = get_four(b.row(r), i, out.cols, b.dtype, wide);
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = f(x.v[k], y.v[k]);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = f(x.v[k]);
    }
    put_four(out.row(r), i, out.cols, out.dtype, wide, x);
  }
}

// A thread for each four columns, x of the grid; rows are y of the grid and beyond its limit a loop.
inline Launch each_shape(int64_t rows, int64_t cols) {
  const int64_t fours = ceil_div(cols, 4), threads = std::min<int64_t>(256, ceil_div(fours, 32) * 32);
  return {dim3(static_cast<unsigned>(ceil_div(fours, threads)), static_cast<unsigned>(std::min<int64_t>(rows, 65535))),
          dim3(static_cast<unsigned>(threads))};
}

// Threads of a block that reads a row of `cols` by fours: at most 1024.
inline int64_t row_threads(int64_t cols) { return std::clamp<int64_t>(ceil_div(ceil_div(cols, 4), 32) * 32, 32, 1024); }

}  // namespace ingot::cuda
