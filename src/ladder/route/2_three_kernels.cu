// A counting sort: experts are counted tile by tile, counts added up, places put. Three launches are most of its time.
#include "ladder/cuda_step.cuh"
#include "ladder/route/route.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Route& op, Ctx& ctx) { route_parts::by_three_kernels(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
