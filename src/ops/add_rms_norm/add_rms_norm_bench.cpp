#include "bench/op_operands.h"
#include "ops/add_rms_norm/add_rms_norm.h"

namespace ingot {

using namespace op_bench;

void bench_add_rms_norm(OpCases& cases) {
  for (const int rows : {1, 16, 512}) {
    cases.push_back(row_case<AddRmsNorm>("add_rms_norm", rows, kCols, [](Bench& b) {
      return AddRmsNorm{.a = b.tokens(kCols),
                        .b = b.tokens(kCols),
                        .weight = b.weight(Format::kF32, 1, kCols),
                        .sum = b.tokens(kCols),
                        .out = b.tokens(kCols),
                        .eps = 1e-5f};
    }));
  }
}

}  // namespace ingot
