// The streaming kernels of weights of 16 bits.
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(BF16)
INGOT_STREAM_KERNELS(F16)

}  // namespace ingot::cuda
