// The kernels of q, k and v with their heads: K-quants.
#include "matmul/cuda/stream/stream_heads_kernel.cuh"

namespace ingot::cuda {

INGOT_HEADS_KERNELS(Q4_K, Q4_K)
INGOT_HEADS_KERNELS(Q4_K, Q6_K)

}  // namespace ingot::cuda
