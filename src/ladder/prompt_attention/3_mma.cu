// Matrix instructions: 128 rows of heads that share keys meet 64 keys in shared memory; copies and products in turn.
#include "ladder/cuda_step.cuh"
#include "ladder/prompt_attention/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using S = RowsShape<DType::kBF16, PagedAttention::kDim>;

__global__ void __launch_bounds__(S::kThreads, S::kBlocks) attend(AttentionArgs a) {
  let_next_begin();
  wait_for_inputs();
  std::byte* shared = shared_memory<std::byte>();
  RowsItem& item = *reinterpret_cast<RowsItem*>(shared + S::kItem);
  if (!find_tile<S>(a, item)) return;
  start_queries<S>(a, item, shared + S::kQueries);
  const int of = 16 * S::kTiles * (static_cast<int>(threadIdx.x) / 32);  // the warp's first row in the item
  std::byte* queries = shared + S::kQueries + of * S::Rows::kStride;
  const SeenKeys seen(a, item, of, 16 * S::kTiles);
  const std::byte* k = shared + S::kRing;
  WarpRows<S::kDim, S::kTiles> rows;
  rows.clear();
#pragma unroll 1
  for (int key = item.keys_begin; key < item.keys_end; key += S::kKeys) {
    start_step<S>(a, item, shared + S::kRing, key, StepPages::of<S>(a, item, key));
    copies_done<0>();
    __syncthreads();
    const bool whole = key + S::kKeys - 1 <= seen.all;
#pragma unroll 1
    for (int i = 0; i < S::kKeys && key + i <= seen.any; i += S::kAtOnce)
      attend_part<S>(a, item, rows, k + i * S::Rows::kStride, key + i, queries, of, whole);
    __syncthreads();
  }
  store_rows<S>(a, item, rows, of, queries);
}

}  // namespace

void run(const PromptAttention& op, Ctx& ctx) {
  const int64_t tiles = tiles_of(op, ctx);
  if (tiles == 0) return;
  launch(ctx, attend, {dim3(op.kv_heads, tiles), dim3(S::kThreads), S::kBytes}, paged_args(op));
}

}  // namespace ingot::cuda::INGOT_STEP
