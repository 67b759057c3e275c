// The parts of `ingot bench ops`: each operator alone, against the limits of this machine measured in the same run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "files/json.h"
#include "ops/ctx.h"

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

// The cases, in the order in which they are printed: of the operators and formats of `names`, where it names any. A
// name that no case has is an Error, and so are names that leave no case.
std::vector<OpCase> op_cases(const std::vector<std::string>& names);
void add_linear_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);

// The steps from a plain product with Q4_0 weights to the one that runs (ops/linear/ladder).
std::vector<OpCase> ladder_cases();

// Bytes of operands to pass through between two uses of one: three times the last-level cache.
int64_t rotation_bytes();

struct OpsReport {
  JsonArray results;
  JsonObject machine;
};

// Runs the operators that engine/model/cuda.h times on a GPU, and prints each unless all is to be one JSON document.
OpsReport bench_gpu_ops(int device, const std::vector<std::string>& names, bool json);

// The page of a report.
std::string ops_page(const OpsReport& report);

}  // namespace ingot
