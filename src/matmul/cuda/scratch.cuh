// How an op shares out its scratch.
#pragma once

#include "base/check.h"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

// Scratch of one op: rows of x, then the products of each part.
class Scratch {
 public:
  explicit Scratch(const DeviceCtx& ctx) : next_(ctx.scratch), left_(ctx.scratch_bytes) {}
  View take(int64_t rows, int64_t cols, DType dtype) {
    View v;
    v.data = take_bytes(rows * cols * dtype_bytes(dtype));
    v.stride = cols;
    v.cols = static_cast<int>(cols);
    v.dtype = dtype;
    return v;
  }
  std::byte* take_bytes(int64_t n) {
    const int64_t bytes = piece_bytes(n);
    CHECK(bytes <= left_, "{} bytes of scratch, {} left", bytes, left_);
    std::byte* at = next_;
    next_ += bytes;
    left_ -= bytes;
    return at;
  }

 private:
  std::byte* next_;
  int64_t left_;
};

}  // namespace ingot::cuda
