// A warp for each row, its lanes side by side: whole lines are read, but 2 bytes of a lane at a time.
#include "ladder/cuda_step.cuh"
#include "ladder/gemv/gemv.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Gemv& op, Ctx& ctx) { gemv_parts::by_warps(gemv_parts::product_of(op, ctx.rows(op.weight)), ctx); }

}  // namespace ingot::cuda::INGOT_STEP
