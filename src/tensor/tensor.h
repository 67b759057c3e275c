// A view of a matrix of activations: memory that the arena owns, with one symbolic dimension.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ingot {

// What the rows of an activation count.
enum class RowKind : uint8_t {
  kFixed,   // nothing: `b` rows in every step
  kTokens,  // the rows of the step's batch (T)
  kLogits,  // the rows whose logits are wanted (L)
};

// The one symbolic dimension: a · count + b rows.
struct Rows {
  RowKind kind = RowKind::kFixed;
  int64_t a = 1;
  int64_t b = 0;

  bool operator==(const Rows&) const = default;
};

inline constexpr Rows kTokenRows{RowKind::kTokens, 1, 0};
inline constexpr Rows kLogitRows{RowKind::kLogits, 1, 0};

struct Tensor {
  std::byte* data = nullptr;  // set in a program (bind_arena); null in a graph and for "no tensor"
  DType dtype = DType::kF32;
  Rows rows;
  int64_t cols = 0;    // elements of a row
  int64_t stride = 0;  // elements from one row to the next; more than cols for a view of some columns
  int32_t value = -1;  // the graph's value that owns the memory; -1 outside a graph
  int64_t offset = 0;  // bytes from the value's first byte to this view's

  // Whether the op has this tensor at all.
  explicit operator bool() const { return cols != 0; }

  template <class T>
  T* row(int64_t r) const {
    return reinterpret_cast<T*>(data) + r * stride;
  }
  float* f32(int64_t r) const { return row<float>(r); }
};

}  // namespace ingot
