// Published weights of any format, decoded to f32 in shared memory stage by stage.
#pragma once

#include "base/check.h"
#include "cuda/kernel.cuh"
#include "quant/weight.h"

namespace ingot::cuda {

inline constexpr int kStageThreads = 256;
inline constexpr int kStageOutputs = 64;  // rows of weights of a stage

// What a kernel needs of a weight.
struct WeightView {
  const uint8_t* data = nullptr;
  int64_t rows = 0, cols = 0, row_bytes = 0;
  const float* scale = nullptr;
  int64_t scale_rows = 1, scale_cols = 1, scale_stride = 0;

  explicit WeightView(const Weight& w)
      : data(reinterpret_cast<const uint8_t*>(w.data)), rows(w.rows), cols(w.cols), row_bytes(w.row_bytes) {
    if (w.scale == nullptr) return;
    CHECK(w.scale_rows > 0 && w.scale_cols > 0, "scales of {} x {} in '{}'", w.scale_rows, w.scale_cols, w.name);
    scale = w.scale;
    scale_rows = w.scale_rows;
    scale_cols = w.scale_cols;
    scale_stride = w.scale_stride;
  }
};

// Columns of a stage: whole blocks of the format.
template <class F>
constexpr int kStageCols = F::kBlock > 64 ? static_cast<int>(F::kBlock) : 64;

// Block `col` / kBlock of a row. Whole rows have functions of their own for that.
template <class F>
__device__ inline void decode_one(const uint8_t* row, int64_t col, float* out) {
  if constexpr (requires { F::kWholeRows; }) {
    F::decode_block(row, col, out);
  } else {
    F::decode(row + col / F::kBlock * F::kBytes, out);
  }
}

// The weights of kStageOutputs rows from n0 on, columns [col, col + kStageCols), zeros beyond the matrix.
template <class F>
__device__ inline void decode_stage(const WeightView& w, int64_t n0, int64_t col, float* to) {
  constexpr int kBlock = static_cast<int>(F::kBlock), kCols = kStageCols<F>, kBlocks = kCols / kBlock;
  for (int i = static_cast<int>(threadIdx.x); i < kStageOutputs * kBlocks; i += kStageThreads) {
    const int64_t n = n0 + i / kBlocks, c = col + i % kBlocks * kBlock;
    float* out = to + i / kBlocks * (kCols + 1) + i % kBlocks * kBlock;
    if (n >= w.rows || c >= w.cols) {
      for (int e = 0; e < kBlock; ++e) out[e] = 0;
      continue;
    }
    decode_one<F>(w.data + n * w.row_bytes, c, out);
    if (w.scale == nullptr) continue;
    const float* scales = w.scale + n / w.scale_rows * w.scale_stride;
    for (int e = 0; e < kBlock; ++e) out[e] *= scales[(c + e) / w.scale_cols];
  }
}

}  // namespace ingot::cuda
