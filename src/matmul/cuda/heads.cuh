// A product for each head of a layer: out of head h = x of head h · W_hᵀ, W_h being N rows of one weight, in every
// format. Columns behind those of the product are copied.
#pragma once

#include <memory>

#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

struct HeadsProduct {
  Matrix x;                              // [rows, heads · (K + tail)]
  const Weight* weight = nullptr;        // [heads · N, K] as it is published
  const StreamedPart* packed = nullptr;  // of pack_heads(), or null
  Matrix out;                            // [rows, heads · (N + tail)]
  int heads = 1;
  int tail = 0;

  int outputs() const { return static_cast<int>(weight->rows / heads); }
};

// A packed copy of the weights, in memory that allocate() gives. Null where rows cannot meet it: odd sizes, other
// devices than of compute capability 9.0, formats without kernels for many rows.
std::shared_ptr<StreamedPart> pack_heads(const HeadsProduct& product, const DeviceCtx& device,
                                         const Allocate& allocate);
// Bytes of scratch for up to `rows` rows.
int64_t heads_scratch(const HeadsProduct& product, int64_t rows);

// Packed weights meet rows that are rounded to bf16, up to kStreamRows of them exactly, more rounded to bf16; published
// ones are multiplied in f32, by a kernel far from the memory's speed whose sums do not depend on the number of rows.
void multiply_heads(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx);

// The columns that no product makes, alone.
void copy_head_tails(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
