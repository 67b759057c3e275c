// Two warps share a row and their sums meet at the end alone; rows are dealt out evenly, x lies in registers.
#include "ladder/cuda_step.cuh"
#include "ladder/gemv/ring.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Gemv& op, Ctx& ctx) {
  using namespace gemv_parts;
  const Product p = product_of(op, ctx.rows(op.weight));
  if (!run_ring<RowRing<16, 2, 2, 1>>(p, ctx)) by_warps(p, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
