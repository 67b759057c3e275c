// What the tests of linears on the CPU share.
#pragma once

#include <vector>

#include "ops/linear/linear.h"
#include "ops/ops_test_support.h"

namespace ingot::test {

// out = x · w, with nothing before or behind it.
inline Linear linear(Buffer& x, const Weight& w, Buffer& out) {
  Linear op;
  op.x = x.tensor();
  op.parts[0].weight = w;
  op.parts[0].out = out.tensor();
  return op;
}

// What the chosen set gives.
inline std::vector<float> cpu_values(const Linear& op, Buffer& out, int threads = 1) {
  out.poison();
  run_cpu(op, rows_batch(static_cast<int>(out.rows())), threads);
  out.expect_intact();
  return out.values();
}

}  // namespace ingot::test
