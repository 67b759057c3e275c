// A warp has a tile of 64 x 32 of its own: it reads fewer different values of shared memory for its products.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/one_buffer.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) {
  using namespace sgemm_parts;
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.has_tiles(kTile, kTile, kOneDepth)) return by_columns(p, ctx);
  by_tiles(p, ctx, one_buffer<true>, 0);
}

}  // namespace ingot::cuda::INGOT_STEP
