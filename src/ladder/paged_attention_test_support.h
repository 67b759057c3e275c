// Every step of an attention over the paged cache against its reference, on a cache with pages in any order.
#pragma once

#include "ladder/paged_attention.h"
#include "ladder/step_test_support.h"

namespace ingot::test {

struct PagedShape {
  int heads = 4, kv_heads = 2, rows = 1;
  std::vector<int> past = {};  // of each seq
  int page_rows = 16;
};

// value(column) for queries and keys; slots that no position has are NaN.
template <class Op>
void check_paged(const PagedShape& shape, uint64_t seed, float spread) {
  SCOPED_TRACE(testing::Message() << shape.past.size() << " seqs with " << shape.rows << " rows after "
                                  << (shape.past.empty() ? 0 : shape.past[0]) << ", " << shape.heads << " heads, pages "
                                  << shape.page_rows);
  Random random(seed);
  Op op;
  op.heads = shape.heads;
  op.kv_heads = shape.kv_heads;
  op.page_rows = shape.page_rows;
  op.seqs = static_cast<int>(shape.past.size());
  op.rows = shape.rows;
  op.past = shape.past.empty() ? 0 : *std::ranges::max_element(shape.past);
  const int of_seq = (op.past + op.rows + op.page_rows - 1) / op.page_rows, pages = of_seq * op.seqs;
  const int64_t slots = int64_t{pages} * op.kv_heads * op.page_rows;
  const auto buffer = [&](int64_t rows, int64_t cols) {
    return std::make_unique<Buffer>(rows, cols, kFixedRows, 0, DType::kBF16);
  };
  const auto q = buffer(int64_t{op.seqs} * op.rows, op.heads * Op::kDim), out = buffer(q->rows(), q->cols());
  const auto k = buffer(slots, Op::kDim), v = buffer(slots, Op::kDim);
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[static_cast<size_t>(random.below(i))]);
  const AttentionBatch at{op.seqs, op.rows};
  std::vector<int32_t> batch = at.fill(shape.past);
  const auto ints = [](std::vector<int32_t>& all, int64_t rows, int64_t cols) {
    return ladder::fixed_tensor(reinterpret_cast<std::byte*>(all.data()), rows, cols, DType::kI32);
  };
  const auto fill = [&](const Tensor& t, float times) {
    for (int64_t r = 0; r < t.rows.b; ++r)
      for (int64_t c = 0; c < t.cols; ++c) t.row<uint16_t>(r)[c] = f32_to_bf16(random.normal() * times);
  };
  fill(q->tensor(), spread);
  fill(k->tensor(), 1);
  fill(v->tensor(), 1);
  for (int s = 0; s < op.seqs; ++s) {
    for (int p = shape.past[static_cast<size_t>(s)] + op.rows; p < of_seq * op.page_rows; ++p) {
      const int64_t page = table[static_cast<size_t>(s * of_seq + p / op.page_rows)];
      for (int h = 0; h < op.kv_heads; ++h) {
        const int64_t row = (page * op.kv_heads + h) * op.page_rows + p % op.page_rows;
        std::fill_n(k->tensor().template row<uint16_t>(row), Op::kDim, uint16_t{0x7fff});
        std::fill_n(v->tensor().template row<uint16_t>(row), Op::kDim, uint16_t{0x7fff});
      }
    }
  }
  op.q = q->tensor();
  op.k = k->tensor();
  op.v = v->tensor();
  op.out = out->tensor();
  op.table = ints(table, op.seqs, of_seq);
  op.batch = ints(batch, 1, at.words());
  // Weights are rounded to bf16, as are the results; values are about normal.
  check_steps(op, {.tolerance = relative(0x1p-7 / kEps, 0x1p-6)});
  out->expect_intact();
}

}  // namespace ingot::test
