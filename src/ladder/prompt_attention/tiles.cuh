// Tiles of a prompt's rows, 128 (row, head) pairs whose heads share keys each: of the steps with matrix instructions.
#pragma once

#include <algorithm>

#include "ladder/paged_attention.cuh"
#include "ladder/prompt_attention/prompt_attention.h"
#include "ops/attention/cuda/attention_cuda_rows.cuh"

namespace ingot::cuda {

// As many as there may be; 0 where there are no rows.
inline int64_t tiles_of(const PromptAttention& op, const Ctx& ctx) {
  const int64_t rows = ctx.rows(op.q);
  return rows * (op.heads / op.kv_heads) / kRowsTile + std::min<int64_t>(op.seqs, rows);
}

// The block's tile, (KV head, tile) of the grid, those with the most keys first; false where there are fewer. By all
// threads, with a barrier.
template <class S>
__device__ inline bool find_tile(const AttentionArgs& a, RowsItem& item) {
  RowsItem mine;
  mine.kv_head = static_cast<int>(blockIdx.x);
  const bool found = TileFinder(a).find(a, static_cast<int>(blockIdx.y), S::kKeys, mine);
  if (threadIdx.x == 0) item = mine;
  __syncthreads();
  return found;
}

}  // namespace ingot::cuda
