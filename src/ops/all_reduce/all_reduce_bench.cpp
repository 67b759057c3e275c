#include "bench/op_operands.h"
#include "ops/all_reduce/all_reduce.h"
#include "ops/all_reduce/all_reduce_peer.h"

namespace ingot {

using namespace op_bench;

// Two ranks.
void bench_all_reduce(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    OpCase c{.op = "all_reduce", .shape = fmt::format("{} x {}", rows, kCols)};
    const double values = static_cast<double>(rows * kCols);
    c.bytes = 2 * values * sizeof(float);
    c.flops = values;
    c.make = [rows](ThreadPool& pool) {
      auto b = std::make_shared<Bench>(pool, std::vector<int>{rows}, 0);
      auto peer = std::make_shared<ReducePeer>(rows * kCols);
      const Tensor x = b->tokens(kCols);
      std::function<void()> run = in_turn(b, std::vector<AllReduce>{{.x = x, .out = x, .comm = peer->comm()}});
      return [peer, run = std::move(run)] { run(); };
    };
    cases.push_back(std::move(c));
  }
}

}  // namespace ingot
