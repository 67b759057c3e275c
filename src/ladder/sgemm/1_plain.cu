// A thread for each result, neighbours below each other: every load and store of a warp is 16 lines for 64 bytes.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) {
  using namespace sgemm_parts;
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.is_empty()) launch(ctx, one_each<false>, {dim3(ceil_div(p.m, 16), ceil_div(p.n, 16)), 256}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
