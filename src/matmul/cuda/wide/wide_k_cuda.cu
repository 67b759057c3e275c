// The kernels of nine to 32 rows of weights in superblocks.
#include "matmul/cuda/wide/wide_kernel.cuh"

namespace ingot::cuda {

INGOT_WIDE_KERNELS(Q4_K)
INGOT_WIDE_KERNELS(Q5_K)
INGOT_WIDE_KERNELS(Q6_K)

}  // namespace ingot::cuda
