// The sum by one kernel, its norm by another: the sum is written, then read twice.
#include "ladder/add_rms_norm/add_rms_norm.h"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const AddRmsNorm& op, Ctx& ctx) {
  cuda::run(Add{.a = op.a, .b = op.b, .out = op.sum}, ctx);
  cuda::run(RmsNorm{.x = op.sum, .weight = op.weight, .out = op.out, .width = op.out.cols, .eps = op.eps}, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
