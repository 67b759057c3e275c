#include "bench/op_operands.h"
#include "ops/glu/glu.h"

namespace ingot {

using namespace op_bench;

void bench_glu(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<Glu>("glu", rows, 4 * kCols, [](Bench& b) {
      return Glu{.gate = b.tokens(4 * kCols), .up = b.tokens(4 * kCols), .out = b.tokens(4 * kCols)};
    }));
  }
}

}  // namespace ingot
