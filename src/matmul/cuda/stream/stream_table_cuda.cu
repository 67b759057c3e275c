// The streaming kernels of weights of 4 bits that index a table, and of 5 bits.
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(IQ4_NL)
INGOT_STREAM_KERNELS(IQ4_XS)
INGOT_STREAM_KERNELS(Q5_0)
INGOT_STREAM_KERNELS(Q5_1)

}  // namespace ingot::cuda
