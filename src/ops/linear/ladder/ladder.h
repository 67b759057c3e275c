// The steps from a plain product with Q4_0 weights to the one that runs, each with one idea more. Nothing but tests and
// `ingot bench ops ladder` calls them; docs/notes/cpu-kernels.md tells what each gains.
#pragma once

#include <span>
#include <vector>

#include "matmul/cpu/panel_kernels.h"
#include "quant/weight.h"
#include "tensor/memory.h"

namespace ingot::cpu {

// x in every form that some step reads. `weight` and `x` must outlive it.
class LadderOperands {
 public:
  // REQUIRES: weight is Q4_0, and `packed` its panels.
  LadderOperands(const Weight& weight, const PackedWeight& packed, const float* x, int64_t rows);

  const Weight& weight;
  const PackedWeight& packed;
  const float* x;  // [rows, K]
  const int64_t rows;
  std::vector<XRow> x_rows;  // [rows]

 private:
  std::vector<int8_t> q_;
  std::vector<int16_t> wide_;
  std::vector<XBlock> blocks_;
  Memory tiles_;
};

struct LadderStep {
  const char* name;
  bool rounds_x;  // reads x as int8
  // out[t · N + n] = row t of x · row n of the weight, for all rows and the n of [first, first + count), both multiples
  // of 16 or up to the end. `scratch` is of ladder_scratch_bytes().
  void (*run)(const LadderOperands& o, int64_t first, int64_t count, float* out, std::byte* scratch);
};

std::span<const LadderStep> ladder();

int64_t ladder_scratch_bytes(const LadderOperands& o, int64_t count);

// Row `row` of Q4_0 as it is published · one row of x, in integers. Compiled for each set (stored_dot_<set>.cpp).
using StoredDot = float (*)(const std::byte* row, const XRow& x, int64_t cols);

}  // namespace ingot::cpu
