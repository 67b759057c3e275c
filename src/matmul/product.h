// The matrix product as plain data: out = x · Wᵀ for one to three weights that share their rows of x, with what comes
// before and after it. Who calls it (a linear, the experts of a layer, an adapter) fills this for one run; all memory
// is the caller's. cpu::multiply() and cuda::multiply() compute it.
//
// The value of an output depends on its row of x and its row of W alone: the order of additions over K is the same for
// every number of rows, parts and threads, gathered or not (on CUDA in the batch-invariant mode).
#pragma once

#include <cstdint>

#include "quant/panels.h"
#include "quant/weight.h"
#include "tensor/activation_kind.h"
#include "tensor/matrix.h"

namespace ingot {

// The rows that the weights meet: row t is x[gather[t]], or x[t] where nothing is gathered; normed where there is a
// norm: RMS norm of the row, or of the sum of two, which is written too.
struct ProductInput {
  Matrix x;                         // [*, K]
  const int32_t* gather = nullptr;  // [rows] rows of x, each any number of times; null: all, in their order
  const float* norm = nullptr;      // [K] the norm's weight; null: rows are read as they are
  float eps = 0;
  const float* scale = nullptr;  // [rows] row t is multiplied by scale[t]; without a norm alone
  // The sum: with a norm and without gather alone.
  Matrix add;                       // [rows, K], or none: x + add is what is normed
  Matrix sum;                       // [rows, K] that sum; may be x or add
  const float* add_norm = nullptr;  // [K], or null: add is normed first
  float add_eps = 0;
};

struct ProductPart {
  const Weight* weight = nullptr;        // [N, K] any format
  const PackedWeight* packed = nullptr;  // the same in panels, for the CPU; null: it is read as it is published
  const float* bias = nullptr;           // [N], or null
  Matrix out;                            // [rows, N]
};

struct Product {
  ProductInput input;
  ProductPart parts[3];
  int n_parts = 1;
  // Two parts, gate and up, of as many rows: parts[0].out = f(gate) · up, and parts[1].out is not written.
  ActivationKind glu = ActivationKind::kNone;
  Matrix residual;  // [rows, N], or none; one part: out = residual + (x · Wᵀ + bias). May be out
  // [rows] the rows of outs and residual that belong to row t, each once; null: row t. On the CPU alone.
  const int32_t* scatter = nullptr;

  int64_t cols() const { return input.x.cols; }  // K
  int64_t out_row(int64_t t) const { return scatter != nullptr ? scatter[t] : t; }
  bool is_glu() const { return glu != ActivationKind::kNone; }
};

// Aborts where shapes do not fit together.
void check(const Product& product);

}  // namespace ingot
