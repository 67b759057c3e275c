// What serves: the kernel of ops/layer_norm, registers for every type and width.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {

void run(const LayerNorm& op, Ctx& ctx) { cuda::run(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
