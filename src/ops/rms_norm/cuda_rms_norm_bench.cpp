#include "bench/cuda_op_bench.h"

namespace ingot::cuda {
namespace {

OpTime time_norm(Blas* blas, int64_t cols, int rows) {
  DeviceBench b(blas, rows, 1, 0);
  OpTime t{.op = "rms_norm", .shape = fmt::format("{} x {}", rows, cols)};
  std::vector<RmsNorm> ops;
  for (int i = 0; i == 0 || i < b.copies(t.bytes); ++i) {
    RmsNorm op{.x = b.tokens(cols, DType::kF32),
               .weight = b.weight(Format::kF32, 1, cols),
               .out = b.tokens(cols, DType::kF32),
               .width = cols,
               .eps = 1e-5f};
    const Cost cost = op.cost({.tokens = rows, .logits = 0});
    t.bytes = cost.bytes;
    t.flops = cost.flops;
    ops.push_back(op);
  }
  t.seconds = b.time(std::move(ops));
  return t;
}

}  // namespace

void bench_rms_norm(Blas* blas, const TellTime& tell) {
  const BenchSizes size = bench_sizes();
  for (const int rows : size.rows) tell(time_norm(blas, size.cols, rows));
}

}  // namespace ingot::cuda
