// The kernels of nine to 256 rows of weights of 16 bits.
#include "matmul/cuda/tall/tall_kernel.cuh"

namespace ingot::cuda {

INGOT_TALL_KERNELS(BF16)
INGOT_TALL_KERNELS(F16)

}  // namespace ingot::cuda
