// The kernel of all that experts do for one row: BF16.
#include "ops/expert_linear/expert_one_kernel.cuh"

namespace ingot::cuda {

INGOT_ONE_KERNELS(BF16, BF16)

}  // namespace ingot::cuda
