// What the steps share: matrices of codes as kernels see them, their scales, and how pairs of results are written.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/fp8_gemm/fp8_gemm.h"
#include "ops/cuda/ctx.h"

namespace ingot::cuda {

struct CodeMatrix {
  const std::byte* data = nullptr;
  int64_t rows = 0, cols = 0;  // of bytes, rows one after another

  CodeMatrix(const Tensor& t, const Ctx& ctx) : data(t.data), rows(ctx.rows(t)), cols(t.cols) {}
  __device__ const std::byte* row(int64_t r) const { return data + r * cols; }
};

struct CodeScales {
  const float* of_a = nullptr;  // [K / 128, M]
  const float* of_b = nullptr;  // [blocks, K / 128]
  int m = 0, steps = 0, blocks = 0;

  CodeScales(const Fp8Gemm& op, const Ctx& ctx)
      : of_a(reinterpret_cast<const float*>(op.a_scale.data)),
        of_b(reinterpret_cast<const float*>(op.b_scale.data)),
        m(static_cast<int>(ctx.rows(op.a))),
        steps(static_cast<int>(op.a.cols / ladder::kFp8Block)),
        blocks(static_cast<int>(ctx.rows(op.b_scale))) {}
  __device__ const float* a(int row, int step) const { return of_a + int64_t{step} * m + row; }
  // Of the block of columns at `col`; the last one's beyond it.
  __device__ float b(int64_t col, int step) const {
    return of_b[int64_t{min(static_cast<int>(col / ladder::kFp8Block), blocks - 1)} * steps + step];
  }
};

}  // namespace ingot::cuda
