// The kernels of nine to 256 rows of weights of 4 bits.
#include "matmul/cuda/tall/tall_kernel.cuh"

namespace ingot::cuda {

INGOT_TALL_KERNELS(Q4_0)
INGOT_TALL_KERNELS(INT4)
INGOT_TALL_KERNELS(MXFP4)
INGOT_TALL_KERNELS(NVFP4)

}  // namespace ingot::cuda
