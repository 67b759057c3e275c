// The streaming kernels of weights of 8 bits.
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(Q8_0)
INGOT_STREAM_KERNELS(INT8)
INGOT_STREAM_KERNELS(F8_E4M3)
INGOT_STREAM_KERNELS(F8_E5M2)

}  // namespace ingot::cuda
