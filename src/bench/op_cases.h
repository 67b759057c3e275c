// The operators that `ingot bench ops` times alone on the CPU, each at the sizes of its cases. The cases of an operator
// lie beside it: ops/<op>/<op>_bench.cpp defines `void bench_<op>(OpCases&)`, and the list of all is written by CMake.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace ingot {

// Which multiplier an operator needs.
enum class Multiplies : uint8_t { kInt8, kF32, kBf16 };

// One operator at one size. It owns copies of its operands that together are larger than the caches.
struct OpCase {
  std::string op;           // "linear", "attention" …: what NAME selects
  std::string format = {};  // of its weights or its KV cache, which NAME selects too; empty: none of them
  std::string shape = {};   // "q4_0 2048x2048, 16 rows"
  double bytes = 0;         // that a run must read and write, weights in their published format
  double flops = 0;
  Multiplies by = Multiplies::kF32;
  // Makes the operands and returns a function that runs the operator on the next copy.
  std::function<std::function<void()>(ThreadPool&)> make = {};
};
using OpCases = std::vector<OpCase>;

// The cases, by operator: of the operators and formats of `names`, where it names any. A name that no case has is an
// Error, and so are names that leave no case.
OpCases op_cases(const std::vector<std::string>& names);

// The median seconds of a run. Short ones are timed in groups of at least 0.2 ms. `between` is called after each group
// and may throw to stop.
double measure_op(const std::function<void()>& run, const std::function<void()>& between);

}  // namespace ingot
