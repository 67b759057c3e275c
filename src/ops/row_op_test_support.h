// For the tests of ops that work row by row: shapes, weights, and the checks that all of them share.
#pragma once

#include <string>
#include <vector>

#include "ops/ops_test_support.h"
#include "quant/weight.h"

namespace ingot::test {

struct RowShape {
  int rows;
  int64_t cols;
};

// Odd widths, and enough rows for the workers in two of them.
inline const std::vector<RowShape> kRowShapes = {{1, 1}, {3, 63}, {2, 64}, {1100, 65}, {9, 8191}};

inline Weight f32_weight(const std::vector<float>& values) {
  Weight w;
  w.name = "test";
  w.rows = 1;
  w.cols = static_cast<int64_t>(values.size());
  w.data = reinterpret_cast<const std::byte*>(values.data());
  w.row_bytes = w.cols * 4;
  return w;
}

inline std::vector<float> normal_values(Random& random, int64_t n) {
  std::vector<float> result(static_cast<size_t>(n));
  for (float& v : result) v = random.normal();
  return result;
}

inline std::vector<float> row_of(Buffer& b, int64_t r) {
  std::vector<float> result;
  for (int64_t c = 0; c < b.cols(); ++c) result.push_back(b.at(r, c));
  return result;
}

inline void copy_row(Buffer& from, int64_t r, Buffer& to) {
  for (int64_t c = 0; c < from.cols(); ++c) to.at(0, c) = from.at(r, c);
}

// `make(x, out)` gives the op. Against ref with gaps between the rows; in place; and the first and last row alone:
// all the same bits. `tolerance(x)` gives how far a result may be off, x the input.
template <class Make, class ToleranceOf>
void check_unary(const Make& make, const ToleranceOf& tolerance, const std::vector<RowShape>& shapes = kRowShapes) {
  for (const RowShape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
    Random random(static_cast<uint64_t>(shape.cols));
    const Batch batch = rows_batch(shape.rows);
    Buffer x(shape.rows, shape.cols, kTokenRows, shape.cols + 7);
    Buffer out(shape.rows, shape.cols, kTokenRows, shape.cols + 3);
    x.fill_outliers(random);
    expect_cpu_matches_ref(make(x.tensor(), out.tensor()), batch, {&out}, tolerance(x));
    for (int64_t r : {int64_t{0}, int64_t{shape.rows - 1}}) {
      Buffer one(1, shape.cols), result(1, shape.cols);
      copy_row(x, r, one);
      run_cpu(make(one.tensor(), result.tensor()), rows_batch(1));
      expect_same_bits(result.values(), row_of(out, r), "a row alone");
    }
    Buffer in_place(shape.rows, shape.cols, kTokenRows, shape.cols + 7);
    in_place.restore(x.save());
    expect_cpu_matches_ref(make(in_place.tensor(), in_place.tensor()), batch, {}, tolerance(x), {&in_place});
    expect_same_bits(in_place.values(), out.values(), "in place");
  }
}

// The same for `make(a, b, out)`, in place of a and of b.
template <class Make, class ToleranceOf>
void check_binary(const Make& make, const ToleranceOf& tolerance) {
  for (const RowShape& shape : kRowShapes) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
    Random random(static_cast<uint64_t>(shape.cols));
    const Batch batch = rows_batch(shape.rows);
    Buffer a(shape.rows, shape.cols, kTokenRows, shape.cols + 7), b(shape.rows, shape.cols);
    Buffer out(shape.rows, shape.cols, kTokenRows, shape.cols + 3);
    a.fill_outliers(random);
    b.fill_outliers(random);
    expect_cpu_matches_ref(make(a.tensor(), b.tensor(), out.tensor()), batch, {&out}, tolerance(a, b));
    const int64_t last = shape.rows - 1;
    Buffer one_a(1, shape.cols), one_b(1, shape.cols), result(1, shape.cols);
    copy_row(a, last, one_a);
    copy_row(b, last, one_b);
    run_cpu(make(one_a.tensor(), one_b.tensor(), result.tensor()), rows_batch(1));
    expect_same_bits(result.values(), row_of(out, last), "a row alone");
    for (Buffer* target : {&a, &b}) {
      const std::vector<std::byte> saved = target->save();
      run_cpu(make(a.tensor(), b.tensor(), target->tensor()), batch, 2);
      expect_same_bits(target->values(), out.values(), "in place");
      target->restore(saved);
    }
  }
}

}  // namespace ingot::test
