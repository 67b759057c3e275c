// Sums are added up in groups of 128 tiles that do not depend on who was first: the same bits every run.
#include "ladder/cuda_step.cuh"
#include "ladder/scan/fixed_groups.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Scan& op, Ctx& ctx) { scan_parts::by_fixed_groups(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
