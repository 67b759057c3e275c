// 8 x 16 results for each thread; what it multiplies next comes into registers meanwhile. Blocks of 128 x 256.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/fragments_ahead.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) {
  using namespace sgemm_parts;
  const Product p = product_of(op, ctx.rows(op.out));
  if (!run_wide_tiles<WideTile<2, 4, 8, 4>, 8>(p, ctx)) by_columns(p, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
