// The kernels of nine to 32 rows of weights of 4 bits.
#include "matmul/cuda/wide/wide_kernel.cuh"

namespace ingot::cuda {

INGOT_WIDE_KERNELS(Q4_0)
INGOT_WIDE_KERNELS(INT4)
INGOT_WIDE_KERNELS(MXFP4)
INGOT_WIDE_KERNELS(NVFP4)

}  // namespace ingot::cuda
