// Attention over every type of the KV cache, as it lies on this CPU.
#include <fmt/format.h>

#include "bench/op_operands.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/kv_write/write_rows.h"

namespace ingot {
namespace {

using namespace op_bench;

// `seqs` seqs with `rows` new rows each and `past` positions in the cache.
struct Step {
  int seqs, rows, past;
};

KvLayer layer_of(DType dtype) {
  KvLayer kv;
  kv.group = 0;
  kv.kv_heads = kKvHeads;
  kv.k_dim = kv.v_dim = kHeadDim;
  kv.page_rows = kPageRows;
  kv.dtype = dtype;
  kv.pairs = dtype == DType::kBF16 && cpu::multiplies_pairs(kv.k_dim, kv.v_dim);
  return kv;
}

// Keys and values for every slot of so many pages.
void fill(Bench& b, KvLayer& kv, int64_t slots) {
  kv.k = b.take(slots * kKvHeads * kv.k_bytes());
  kv.v = b.take(slots * kKvHeads * kv.v_bytes());
  Numbers numbers;
  float k[kHeadDim], v[kHeadDim];
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (int head = 0; head < kKvHeads; ++head) {
      for (int i = 0; i < kHeadDim; ++i) k[i] = numbers.next(), v[i] = numbers.next();
      cpu::write_head(cpu::attention_kernels(), kv, slot, head, k, v);
    }
  }
}

OpCase attention_case(DType dtype, const Step& step) {
  const auto [seqs, rows, past] = step;
  OpCase c{.op = "attention", .format = std::string(dtype_name(dtype))};
  c.shape = fmt::format("{}, {} x {} rows after {}", c.format, seqs, rows, past);
  double seen = 0;  // positions, over all rows
  for (int i = 0; i < rows; ++i) seen += seqs * (past + i + 1.0);
  const KvLayer layer = layer_of(dtype);
  const double cache = 1.0 * seqs * (past + rows) * kKvHeads * static_cast<double>(layer.k_bytes() + layer.v_bytes());
  c.bytes = cache + 2.0 * seqs * rows * kHeads * kHeadDim * 4;
  c.flops = 4 * seen * kHeads * kHeadDim;
  c.by = layer.pairs ? Multiplies::kBf16 : Multiplies::kF32;
  c.make = [step, layer, cache](ThreadPool& pool) {
    auto b = std::make_shared<Bench>(pool, std::vector<int>(static_cast<size_t>(step.seqs), step.rows), step.past);
    const auto slots = static_cast<int64_t>(b->batch.groups[0].page_table.size()) * kPageRows;
    Attention op;
    op.heads = kHeads;
    op.scale = 0.125f;
    op.kv = layer;
    fill(*b, op.kv, slots);
    std::vector<Attention> ops;
    for (size_t i = 0; i < copies(cache); ++i) {
      op.q = b->tokens(kHeads * kHeadDim);
      op.out = b->tokens(kHeads * kHeadDim);
      if (i > 0) op.kv.k = b->copy(op.kv.k, slots * kKvHeads * op.kv.k_bytes());
      if (i > 0) op.kv.v = b->copy(op.kv.v, slots * kKvHeads * op.kv.v_bytes());
      ops.push_back(op);
      cpu::prepare(ops.back(), b->prepare);
    }
    return in_turn(b, std::move(ops));
  };
  return c;
}

}  // namespace

void bench_attention(OpCases& cases) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    for (const Step& step : {Step{1, 1, 127}, Step{1, 1, 4095}, Step{16, 1, 511}, Step{1, 512, 0}, Step{1, 256, 2048}})
      cases.push_back(attention_case(dtype, step));
  }
}

}  // namespace ingot
