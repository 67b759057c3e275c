#include "bench/cuda_op_bench.h"

namespace ingot::cuda {
namespace {

// Keys or values for so many slots: random ones, or in 8 bits 0.75 (fp8) and 52 · 0.26 (q8_0).
std::byte* cache_of(DeviceBench& b, DType dtype, int64_t slots, int dim) {
  if (dtype == DType::kBF16) return const_cast<std::byte*>(b.weight(Format::kBF16, slots, dim).data);
  return b.bytes(slots * dtype_row_bytes(dtype, dim), 0x34);
}

OpTime time_attention(Blas* blas, const BenchSizes& size, DType dtype, int seqs, int rows, int past) {
  DeviceBench b(blas, seqs, rows, past);
  const double keys = static_cast<double>(seqs) * (past + rows), heads = size.heads, dim = size.head_dim;
  OpTime t{.op = "attention", .shape = fmt::format("{} x {} rows after {}", seqs, rows, past)};
  if (dtype != DType::kBF16) t.shape = fmt::format("{}, {}", dtype_name(dtype), t.shape);
  t.bytes = 2 * keys * size.kv_heads * static_cast<double>(dtype_row_bytes(dtype, size.head_dim)) +
            4.0 * b.rows() * heads * dim;
  for (int i = 0; i < rows; ++i) t.flops += 4.0 * seqs * (past + i + 1.0) * heads * dim;
  std::vector<Attention> ops;
  for (int i = 0; i < b.copies(t.bytes); ++i) {
    Attention op;
    op.q = b.tokens(int64_t{size.heads} * size.head_dim, DType::kBF16);
    op.out = b.tokens(int64_t{size.heads} * size.head_dim, DType::kBF16);
    op.heads = size.heads;
    op.scale = 0.09f;
    op.kv.group = 0;
    op.kv.kv_heads = size.kv_heads;
    op.kv.k_dim = op.kv.v_dim = size.head_dim;
    op.kv.page_rows = kBenchPageRows;
    op.kv.dtype = dtype;
    const int64_t slots = b.pages() * kBenchPageRows * size.kv_heads;
    op.kv.k = cache_of(b, dtype, slots, size.head_dim);
    op.kv.v = cache_of(b, dtype, slots, size.head_dim);
    ops.push_back(op);
  }
  t.seconds = b.time(std::move(ops));
  return t;
}

}  // namespace

void bench_attention(Blas* blas, const TellTime& tell) {
  const BenchSizes size = bench_sizes();
  for (const DType dtype : {DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    for (const int seqs : {1, 8, 32, 256}) {
      if (seqs <= size.most_seqs) tell(time_attention(blas, size, dtype, seqs, 1, is_emulated() ? 70 : 575));
    }
    for (const int seqs : {1, 8}) {
      if (seqs <= size.most_seqs) tell(time_attention(blas, size, dtype, seqs, is_emulated() ? 20 : 512, 0));
    }
    if (is_emulated()) continue;
    tell(time_attention(blas, size, dtype, 1, 1, 32767));
    tell(time_attention(blas, size, dtype, 1, 4096, 0));
  }
}

}  // namespace ingot::cuda
