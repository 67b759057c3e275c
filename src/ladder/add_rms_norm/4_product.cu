// What serves: the kernel of ops/add_rms_norm, with the bits of Add and RmsNorm.
#include "ladder/add_rms_norm/add_rms_norm.h"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const AddRmsNorm& op, Ctx& ctx) { cuda::run(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
