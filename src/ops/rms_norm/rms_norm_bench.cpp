#include "bench/op_operands.h"
#include "ops/rms_norm/rms_norm.h"

namespace ingot {

using namespace op_bench;

void bench_rms_norm(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<RmsNorm>("rms_norm", rows, kCols, [](Bench& b) {
      return RmsNorm{.x = b.tokens(kCols),
                     .weight = b.weight(Format::kF32, 1, kCols),
                     .out = b.tokens(kCols),
                     .width = kCols,
                     .eps = 1e-5f};
    }));
  }
}

}  // namespace ingot
