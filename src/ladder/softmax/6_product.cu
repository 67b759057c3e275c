// What serves: the kernel of ops/softmax, registers for every type and width.
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {

void run(const Softmax& op, Ctx& ctx) { cuda::run(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
