// What serves: the kernel of ops/add_rms_norm, registers for f32, bf16 and f32 into bf16, a kernel for each.
#include "ladder/add_rms_norm/add_rms_norm.h"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const AddRmsNorm& op, Ctx& ctx) { cuda::run(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
