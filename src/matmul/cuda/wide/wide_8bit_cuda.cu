// The kernels of nine to 32 rows of weights of 8 bits.
#include "matmul/cuda/wide/wide_kernel.cuh"

namespace ingot::cuda {

INGOT_WIDE_KERNELS(Q8_0)
INGOT_WIDE_KERNELS(INT8)
INGOT_WIDE_KERNELS(F8_E4M3)

}  // namespace ingot::cuda
