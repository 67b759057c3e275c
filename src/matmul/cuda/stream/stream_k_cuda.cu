// The streaming kernels of K-quants.
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(Q2_K)
INGOT_STREAM_KERNELS(Q3_K)
INGOT_STREAM_KERNELS(Q4_K)
INGOT_STREAM_KERNELS(Q5_K)
INGOT_STREAM_KERNELS(Q6_K)

}  // namespace ingot::cuda
