// 16 bytes at a time from global memory and from shared memory, where a is turned for it.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/one_buffer.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) {
  using namespace sgemm_parts;
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.has_tiles(kTile, kTile, kOneDepth)) return by_columns(p, ctx);
  by_tiles(p, ctx, one_buffer<false>, 0);
}

}  // namespace ingot::cuda::INGOT_STEP
