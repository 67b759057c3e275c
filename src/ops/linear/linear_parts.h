// The pieces of the CPU version of Linear: what a task computes, and the two ways to compute it. Inside this folder
// only.
#pragma once

#include "ops/linear/linear.h"
#include "ops/linear/panel_kernels.h"

namespace ingot::cpu {

// Output rows [first, first + n) of one part; for glu, of gate and up.
struct LinearBlock {
  size_t part;
  int64_t first, n;
};

// How the outputs of a part are cut into tasks. No value depends on it.
struct LinearCut {
  int64_t block;    // output rows of a task, a multiple of 16 for packed parts
  int64_t pass;     // rows of x at once
  int64_t scratch;  // bytes of a thread
};

// What follows the sums of row t of x: bias, glu with the sums of `up`, residual; then out.
void finish_row(const Linear& op, const LinearBlock& block, int64_t t, float* sums, float* up);

// Weights as they are published, decoded to f32 row by row (linear_rows.cpp).
LinearCut rows_cut(const Linear& op, int threads);
void run_rows(const Linear& op, const LinearBlock& block, const LinearCut& cut, int64_t rows, std::byte* scratch);

// Packed weights (linear_panels.cpp).
LinearCut panels_cut(const Linear& op, const Linear::Part& part, int64_t rows, int threads);
void run_panels(const Linear& op, const LinearBlock& block, const LinearCut& cut, const XRow* x, int64_t rows,
                std::byte* scratch);

// The rows of x as packed weights read them, in memory of x_rows_bytes().
int64_t x_rows_bytes(int64_t rows, int64_t cols);
struct XKinds {
  bool quantized = false;  // int8 with a scale for each 32 values
  bool coarse = false;     //   for each 128
  bool bf16 = false;
};
const XRow* make_x_rows(const Linear& op, XKinds kinds, int64_t rows, ThreadPool& pool, std::byte* memory);

}  // namespace ingot::cpu
