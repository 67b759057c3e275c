// The kernels of nine to 256 rows of weights of 8 bits.
#include "matmul/cuda/tall/tall_kernel.cuh"

namespace ingot::cuda {

INGOT_TALL_KERNELS(Q8_0)
INGOT_TALL_KERNELS(INT8)
INGOT_TALL_KERNELS(F8_E4M3)

}  // namespace ingot::cuda
