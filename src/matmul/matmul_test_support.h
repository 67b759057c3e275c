// What the tests of products and of ops use: buffers that own their memory and notice stray writes, weights in every
// format, comparisons, and all instruction sets in turn.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random_test_support.h"
#include "base/thread_pool.h"
#include "matmul/cpu/kernels.h"
#include "quant/format_test_support.h"
#include "quant/weight.h"
#include "tensor/tensor.h"

namespace ingot::test {

inline constexpr double kEps = std::numeric_limits<float>::epsilon();

// A [rows, cols] matrix that owns its memory. Everything is poisoned (NaN) when made; the columns
// between cols and stride, and a margin before and after, must stay so.
class Buffer {
 public:
  // `stride` 0: cols.
  Buffer(int64_t rows, int64_t cols, Rows kind = kTokenRows, int64_t stride = 0, DType dtype = DType::kF32)
      : rows_(rows),
        cols_(cols),
        stride_(stride == 0 ? cols : stride),
        kind_(kind),
        dtype_(dtype),
        bytes_(static_cast<size_t>((rows_ * stride_ + 2 * kMargin) * dtype_bytes(dtype_))) {
    poison();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  Tensor tensor() { return columns(0, cols_); }
  // A view of the columns [first, first + n).
  Tensor columns(int64_t first, int64_t n) {
    Tensor t;
    t.data = bytes_.data() + (kMargin + first) * dtype_bytes(dtype_);
    t.dtype = dtype_;
    t.rows = kind_.kind == RowKind::kFixed ? Rows{RowKind::kFixed, 1, rows_} : kind_;
    t.cols = n;
    t.stride = stride_;
    return t;
  }
  // f32 and i32 alone.
  float& at(int64_t r, int64_t c) { return *(reinterpret_cast<float*>(bytes_.data()) + kMargin + r * stride_ + c); }
  int32_t& i32(int64_t r, int64_t c) {
    return *(reinterpret_cast<int32_t*>(bytes_.data()) + kMargin + r * stride_ + c);
  }

  void poison() {
    const size_t size = static_cast<size_t>(dtype_bytes(dtype_));
    for (size_t i = 0; i < bytes_.size(); i += size) std::memcpy(bytes_.data() + i, &kPoison, size);
  }
  // Calls value() for each element, in order of rows.
  template <class F>
  void fill(F&& value) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) at(r, c) = value();
  }
  void fill_outliers(Random& random) {
    fill([&] { return random.outlier(); });
  }

  // The columns of every row, f32.
  std::vector<float> values() {
    std::vector<float> result;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) result.push_back(at(r, c));
    return result;
  }
  // Everything, to bring it back later.
  std::vector<std::byte> save() const { return bytes_; }
  void restore(const std::vector<std::byte>& saved) { std::copy(saved.begin(), saved.end(), bytes_.begin()); }

  // Fails the test where something was written outside the matrix.
  void expect_intact() const {
    const int64_t size = dtype_bytes(dtype_);
    const int64_t total = static_cast<int64_t>(bytes_.size()) / size;
    for (int64_t i = 0; i < total; ++i) {
      const int64_t inside = i - kMargin;
      if (inside >= 0 && inside < rows_ * stride_ && inside % stride_ < cols_) continue;
      ASSERT_EQ(std::memcmp(bytes_.data() + i * size, &kPoison, static_cast<size_t>(size)), 0)
          << "element " << inside << " outside the matrix was written";
    }
  }

 private:
  static constexpr int64_t kMargin = 16;
  static constexpr uint32_t kPoison = 0x7fd1ffd1u;  // NaN as f32, and its lower half as f16 and as bf16

  int64_t rows_, cols_, stride_;
  Rows kind_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// A pool of `threads`, made once for the whole program.
inline ThreadPool& pool_of(int threads) {
  static std::vector<std::unique_ptr<ThreadPool>> pools(65);
  std::unique_ptr<ThreadPool>& pool = pools.at(static_cast<size_t>(threads));
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

// How far the element (r, c) may be from `want`.
using Tolerance = std::function<double(int64_t r, int64_t c, double want)>;

// `ulps` roundings of the value itself, plus `absolute`.
inline Tolerance relative(double ulps, double absolute = 0) {
  return [=](int64_t, int64_t, double want) { return ulps * kEps * std::fabs(want) + absolute; };
}
inline Tolerance exact() {
  return [](int64_t, int64_t, double) { return 0.0; };
}

// Where got and want differ: NaN against a number always does, equal bits and equal infinities never.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, int64_t cols,
                        const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  int bad = 0;
  for (size_t i = 0; i < got.size() && bad < 5; ++i) {
    if (std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]) || got[i] == want[i]) continue;
    const int64_t r = static_cast<int64_t>(i) / cols, c = static_cast<int64_t>(i) % cols;
    const double allowed = tolerance(r, c, want[i]);
    const double off = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (off <= allowed) continue;  // false for NaN
    ++bad;
    ADD_FAILURE() << what << ": (" << r << ", " << c << ") is " << got[i] << ", want " << want[i] << " ± " << allowed;
  }
}

// Every bit equal; NaNs too.
inline void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << ": element " << i << " is " << got[i] << ", want " << want[i];
}

// Calls body() once for each set of kernels that this CPU runs (matmul/cpu/kernels.h).
template <class F>
void for_each_kernels(F&& body) {
  for (const cpu::Kernels* set : cpu::available_kernels()) {
    SCOPED_TRACE(set->name);
    cpu::use_kernels(set);
    body();
  }
  cpu::use_kernels(nullptr);
}

// A weight that owns its memory: values of about `size`, encoded in `format`.
class TestWeight {
 public:
  TestWeight(Random& random, Format format, int64_t rows, int64_t cols, float size = 1) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (float& value : values) value = size * random.normal();
    weight_.name = "test";
    weight_.format = format;
    weight_.rows = rows;
    weight_.cols = cols;
    weight_.row_bytes = format_row_bytes(format, cols);
    bytes_.resize(static_cast<size_t>(weight_.bytes()));
    for (int64_t n = 0; n < rows; ++n)
      format_encode(format, values.data() + n * cols, bytes_.data() + n * weight_.row_bytes, cols);
    weight_.data = bytes_.data();
  }
  TestWeight(const TestWeight&) = delete;
  TestWeight& operator=(const TestWeight&) = delete;

  // Random scales beside the data, one for each block of rows × cols.
  void add_scales(Random& random, int64_t rows, int64_t cols) {
    weight_.scale_rows = rows;
    weight_.scale_cols = cols;
    weight_.scale_stride = (weight_.cols + cols - 1) / cols;
    scales_.resize(static_cast<size_t>((weight_.rows + rows - 1) / rows * weight_.scale_stride));
    for (float& scale : scales_) scale = 0.5f + static_cast<float>(random.uniform());
    weight_.scale = scales_.data();
  }

  const Weight& weight() const { return weight_; }
  std::vector<float> row(int64_t n) const {
    std::vector<float> values(static_cast<size_t>(weight_.cols));
    weight_.decode_row(n, values.data());
    return values;
  }

 private:
  Weight weight_;
  std::vector<std::byte> bytes_;
  std::vector<float> scales_;
};

}  // namespace ingot::test
