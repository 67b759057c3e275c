// A matrix of activations as the product is given it: plain memory, whose number of rows the caller knows. What is left
// of a Tensor when a step's rows are counted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace ingot {

struct Matrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t cols = 0;    // elements of a row; 0: no matrix
  int64_t stride = 0;  // elements from one row to the next

  Matrix() = default;
  explicit Matrix(const Tensor& t) : data(t.data), dtype(t.dtype), cols(t.cols), stride(t.stride) {}
  explicit operator bool() const { return cols != 0; }
  float* f32(int64_t r) const { return reinterpret_cast<float*>(data) + r * stride; }
};

}  // namespace ingot
