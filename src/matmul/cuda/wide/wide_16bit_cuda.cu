// The kernels of nine to 32 rows of weights of 16 bits.
#include "matmul/cuda/wide/wide_kernel.cuh"

namespace ingot::cuda {

INGOT_WIDE_KERNELS(BF16)
INGOT_WIDE_KERNELS(F16)

}  // namespace ingot::cuda
