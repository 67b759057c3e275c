#include "bench/op_operands.h"
#include "ops/all_reduce/all_reduce_peer.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"

namespace ingot {

using namespace op_bench;

// Two ranks.
void bench_all_reduce_add_norm(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    OpCase c{.op = "all_reduce_add_norm", .shape = fmt::format("{} x {}", rows, kCols)};
    const double values = static_cast<double>(rows * kCols);
    c.bytes = 5 * values * sizeof(float);
    c.flops = 6 * values;
    c.make = [rows](ThreadPool& pool) {
      auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
      auto peer = std::make_shared<ReducePeer>(rows * kCols);
      const AllReduceAddNorm op{.x = b->tokens(kCols),
                                .residual = b->tokens(kCols),
                                .weight = b->weight(Format::kF32, 1, kCols),
                                .sum = b->tokens(kCols),
                                .out = b->tokens(kCols),
                                .eps = 1e-5f,
                                .comm = peer->comm()};
      std::function<void()> run = in_turn(b, std::vector<AllReduceAddNorm>{op});
      return [peer, run = std::move(run)] { run(); };
    };
    cases.push_back(std::move(c));
  }
}

}  // namespace ingot
