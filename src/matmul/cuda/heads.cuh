// A product for each head of a layer: out of head h = x of head h · W_hᵀ, W_h being N rows of one weight, in every
// format. Columns behind those of the product are copied.
#pragma once

#include "cuda/device_ctx.h"
#include "quant/weight.h"
#include "tensor/matrix.h"

namespace ingot::cuda {

struct HeadsProduct {
  Matrix x;                        // [rows, heads · (K + tail)]
  const Weight* weight = nullptr;  // [heads · N, K] as it is published
  Matrix out;                      // [rows, heads · (N + tail)]
  int heads = 1;
  int tail = 0;
};

// Weights and rows meet in f32, but many rows by matrix instructions in bf16 where the weights are not f32 and the
// launch need not be batch-invariant.
void multiply_heads(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
