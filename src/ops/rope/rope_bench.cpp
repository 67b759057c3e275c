#include "bench/op_operands.h"
#include "ops/rope/rope.h"

namespace ingot {

using namespace op_bench;

void bench_rope(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<Rope>("rope", rows, (kHeads + kKvHeads) * kHeadDim, [](Bench& b) {
      return Rope{.q = b.tokens(kHeads * kHeadDim),
                  .k = b.tokens(kKvHeads * kHeadDim),
                  .table = b.tokens(kHeadDim),
                  .head_dim = kHeadDim};
    }));
  }
}

}  // namespace ingot
