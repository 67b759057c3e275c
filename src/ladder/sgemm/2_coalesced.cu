// Neighbours side by side: a warp's loads of b and stores are of whole lines.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sgemm& op, Ctx& ctx) { sgemm_parts::by_columns(sgemm_parts::product_of(op, ctx.rows(op.out)), ctx); }

}  // namespace ingot::cuda::INGOT_STEP
