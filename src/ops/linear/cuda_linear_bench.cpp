#include "bench/cuda_op_bench.h"

namespace ingot::cuda {
namespace {

// n outputs of each part from rows of bf16; two parts: a GLU.
OpTime time_linear(Blas* blas, int64_t n, int64_t cols, int parts, int rows) {
  DeviceBench b(blas, rows, 1, 0);
  OpTime t{.op = "linear", .shape = fmt::format("{}{}x{}, {} rows", parts == 2 ? "2 x " : "", n, cols, rows)};
  std::vector<Linear> ops;
  for (int i = 0; i == 0 || i < b.copies(t.bytes); ++i) {
    Linear op;
    op.x = b.tokens(cols, DType::kBF16);
    op.n_parts = parts;
    for (size_t p = 0; p < static_cast<size_t>(parts); ++p) {
      op.parts[p].weight = b.weight(Format::kBF16, n, cols);
      op.parts[p].out = b.tokens(n, parts == 2 ? DType::kBF16 : DType::kF32);
    }
    if (parts == 2) op.glu = ActivationKind::kSilu;
    const Cost cost = op.cost({.tokens = rows, .logits = 0});
    t.bytes = cost.bytes;
    t.flops = cost.flops;
    ops.push_back(std::move(op));
  }
  t.seconds = b.time(std::move(ops));
  return t;
}

}  // namespace

void bench_linear(Blas* blas, const TellTime& tell) {
  const BenchSizes size = bench_sizes();
  for (const int rows : size.rows) {
    tell(time_linear(blas, size.qkv, size.cols, 1, rows));
    tell(time_linear(blas, size.cols, size.cols, 1, rows));
    tell(time_linear(blas, size.ffn, size.cols, 2, rows));
    tell(time_linear(blas, size.cols, size.ffn, 1, rows));
  }
}

}  // namespace ingot::cuda
