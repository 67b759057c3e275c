// The kernels of all that experts do for one row: K-quants.
#include "ops/expert_linear/expert_one_kernel.cuh"

namespace ingot::cuda {

INGOT_ONE_KERNELS(Q4_K, Q4_K)
INGOT_ONE_KERNELS(Q4_K, Q6_K)

}  // namespace ingot::cuda
