// What serves: the kernel of ops/layer_norm, registers for f32, bf16 and f32 into bf16, a kernel for each.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {

void run(const LayerNorm& op, Ctx& ctx) { cuda::run(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
