// Attention over the paged KV cache as a device has it (ops/cuda/ctx.h): what the ladders of prompts and of decoding
// share. Heads of 128, bf16; a row sees the positions up to its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ladder/step.h"

namespace ingot {

struct PagedAttention {
  static constexpr int kDim = 128;

  Tensor q;      // [seqs · rows, heads · kDim]
  Tensor k, v;   // [pages · KV heads · page_rows, kDim], the 16-byte pieces of a row permuted by kv_piece()
  Tensor table;  // [seqs, pages of a seq] int32: its pages, in the order of positions
  Tensor batch;  // [1, …] int32: AttentionBatch
  Tensor out;    // as q
  int heads = 0, kv_heads = 0, page_rows = 64;
  int seqs = 0;
  int rows = 0, past = 0;  // new rows of each seq; positions before them, of the longest seq

  float scale() const { return 1 / std::sqrt(static_cast<float>(kDim)); }
  template <class F>
  void each(F&& f) {
    f.in(q);
    f.in(k);
    f.in(v);
    f.in(table);
    f.in(batch);
    f.out(out);
  }
  // Of seqs that are all as long as the longest.
  Cost cost(const Shape& s) const {
    const double positions = static_cast<double>(seqs) * (past + rows);
    const double pairs = seqs * (static_cast<double>(rows) * past + 0.5 * rows * (rows + 1.0));
    return {.bytes = s.bytes(q) + s.bytes(out) + positions * kv_heads * 4 * kDim, .flops = 4 * pairs * heads * kDim};
  }
};

// The arrays of a batch, one after another: where each begins in the words of PagedAttention::batch.
struct AttentionBatch {
  int seqs, rows;  // of each seq

  int counts() const { return 0; }
  int q_start() const { return 3; }
  int kv_len() const { return q_start() + seqs + 1; }
  int position() const { return kv_len() + seqs; }
  int seq() const { return position() + seqs * rows; }
  int words() const { return seq() + seqs * rows; }

  // Seq i has past[i] positions before its rows.
  std::vector<int32_t> fill(const std::vector<int>& past) const {
    std::vector<int32_t> all(static_cast<size_t>(words()));
    const auto at = [&](int i) -> int32_t& { return all[static_cast<size_t>(i)]; };
    at(0) = seqs * rows;
    at(1) = seqs;
    for (int s = 0; s < seqs; ++s) {
      at(q_start() + s + 1) = (s + 1) * rows;
      at(kv_len() + s) = past[static_cast<size_t>(s)] + rows;
      for (int r = 0; r < rows; ++r) {
        at(position() + s * rows + r) = past[static_cast<size_t>(s)] + r;
        at(seq() + s * rows + r) = s;
      }
    }
    return all;
  }
};

namespace ref {
// Two passes over the keys, in double.
void attend(const PagedAttention& op);
}  // namespace ref

namespace ladder {

// With random values; pages of a seq lie backwards in the cache.
template <class Op>
Op paged_operands(Operands& o, int heads, int kv_heads, int seqs, int rows, int past) {
  Op op;
  op.heads = heads;
  op.kv_heads = kv_heads;
  op.seqs = seqs;
  op.rows = rows;
  op.past = past;
  const int64_t of_seq = (past + rows + op.page_rows - 1) / op.page_rows, pages = of_seq * seqs;
  const int64_t width = int64_t{heads} * Op::kDim;
  op.q = o.tensor(int64_t{seqs} * rows, width, DType::kBF16);
  op.out = o.tensor(int64_t{seqs} * rows, width, DType::kBF16);
  op.k = o.tensor(pages * kv_heads * op.page_rows, Op::kDim, DType::kBF16);
  op.v = o.tensor(pages * kv_heads * op.page_rows, Op::kDim, DType::kBF16);
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(table.size() - 1 - i);
  op.table = o.ints(seqs, of_seq, table);
  const AttentionBatch batch{seqs, rows};
  op.batch = o.ints(1, batch.words(), batch.fill(std::vector<int>(static_cast<size_t>(seqs), past)));
  return op;
}

}  // namespace ladder
}  // namespace ingot
