// The kernels of nine to 256 rows of K-quants.
#include "matmul/cuda/tall/tall_kernel.cuh"

namespace ingot::cuda {

INGOT_TALL_KERNELS(Q4_K)
INGOT_TALL_KERNELS(Q5_K)
INGOT_TALL_KERNELS(Q6_K)

}  // namespace ingot::cuda
