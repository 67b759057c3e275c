// The operands of a product with Q4_0 weights in every form that a step of its ladder reads.
#pragma once

#include <vector>

#include "matmul/cpu/panel_kernels.h"
#include "quant/weight.h"
#include "tensor/memory.h"

namespace ingot::cpu {

// Of the instruction set that is in use when it is made. `weight` and `x` must outlive it.
class Q4Operands {
 public:
  // REQUIRES: weight is Q4_0, and `packed` its panels.
  Q4Operands(const Weight& weight, const PackedWeight& packed, const float* x, int64_t rows);

  const Weight weight;
  const PackedWeight packed;
  const float* const x;  // [rows, K]
  const int64_t rows;
  std::vector<const float*> x_values;  // [rows]
  std::vector<XRow> x_rows;            // [rows] as int8

 private:
  std::vector<int8_t> q_;
  std::vector<int16_t> wide_;
  std::vector<XBlock> blocks_;
  Memory tiles_;
};

// Of one thread, for `count` outputs.
int64_t q4_scratch_bytes(const Q4Operands& o, int64_t count);
// The part of it for weights of `panels` panels expanded, all of K or a piece at a time.
int64_t q4_expanded_bytes(const Q4Operands& o, int64_t panels);

// The sums of whole panels, `stride` apart, to their places in out[rows, N].
void copy_q4_sums(const Q4Operands& o, const float* sums, int64_t stride, int64_t first, int64_t count, float* out);

}  // namespace ingot::cpu
