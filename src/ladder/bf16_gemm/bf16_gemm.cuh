// What the steps share: matrices as kernels see them, and how results are written.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/bf16_gemm/bf16_gemm.h"
#include "ops/cuda/ctx.h"

namespace ingot::cuda {

struct GemmMatrix {
  const std::byte* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;  // bytes

  GemmMatrix(const Tensor& t, const Ctx& ctx) : data(t.data), rows(ctx.rows(t)), cols(t.cols), stride(2 * t.stride) {}
  __device__ const std::byte* row(int64_t r) const { return data + r * stride; }
};

// Columns col and col + 1 of a row, where there is such a place. REQUIRES: both even.
__device__ inline void store_pair(const View& out, int64_t rows, int64_t row, int64_t col, float x, float y) {
  if (row < rows && col < out.cols) *reinterpret_cast<uint32_t*>(out.row(row) + col * 2) = pack_bf16(x, y);
}

}  // namespace ingot::cuda
