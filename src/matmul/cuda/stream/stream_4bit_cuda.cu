// The streaming kernels of weights of 4 bits in groups of their own.
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(Q4_0)
INGOT_STREAM_KERNELS(Q4_1)
INGOT_STREAM_KERNELS(INT4)
INGOT_STREAM_KERNELS(INT4_ASYM)
INGOT_STREAM_KERNELS(MXFP4)
INGOT_STREAM_KERNELS(NVFP4)

}  // namespace ingot::cuda
