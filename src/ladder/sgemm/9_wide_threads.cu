// 8 x 16 results for each thread: 24 values from shared memory for 128 products. a lies as it does in memory.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/thread_tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) {
  using namespace sgemm_parts;
  const Product p = product_of(op, ctx.rows(op.out));
  if (!run_thread_tiles<ThreadTiles<2, 2, 16, 16, 3, 2>, 8>(p, ctx)) by_columns(p, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
