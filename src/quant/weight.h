// One weight as kernels read it: a matrix of `rows` × `cols` in some format, in memory that somebody
// else owns (a mapped file or a Weights store) and that outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quant/format.h"

namespace ingot {

// Values that a device makes for itself (random_values.h): the host's memory behind them holds zeros.
struct RandomValues {
  uint64_t key = 0;
  float range = 0;  // 0: the host has the values

  explicit operator bool() const { return range != 0; }
};

struct Weight {
  std::string name;  // for dumps and errors; empty for "no weight"
  Format format = Format::kF32;
  int64_t rows = 0;                 // N, the outputs
  int64_t cols = 0;                 // K, the inputs
  const std::byte* data = nullptr;  // [rows] rows of row_bytes each
  int64_t row_bytes = 0;
  // Rows are heads of so many, which the file keeps in the order of interleaved rotation (q and k in GGUF files of some
  // architectures); 0: in their own order. A device has them in order.
  int64_t head_rows = 0;
  bool mapped = false;  // the memory is a mapped file: pages may be given back, and come again when they are read
  // Scales beside the data (8-bit floats of Hugging Face): value (n, k) is multiplied by
  // scale[n / scale_rows * scale_stride + k / scale_cols]. Null where the format carries its own.
  const float* scale = nullptr;
  int64_t scale_rows = 0, scale_cols = 0, scale_stride = 0;
  RandomValues random = {};

  explicit operator bool() const { return data != nullptr; }
  int64_t bytes() const { return rows * row_bytes; }  // of the published format
  const std::byte* row(int64_t n) const { return data + stored_row(n) * row_bytes; }
  // Stored row 2i + j of a head is its row j · half + i.
  int64_t stored_row(int64_t n) const {
    if (head_rows == 0) return n;
    const int64_t half = head_rows / 2, in_head = n % head_rows;
    return n - in_head + in_head % half * 2 + in_head / half;
  }

  // Row n as `cols` floats.
  void decode_row(int64_t n, float* out) const;
};

}  // namespace ingot
