// The kernel of q, k and v with their heads: those of Q4_K_M.
#include "matmul/cuda/stream/stream_heads_kernel.cuh"

namespace ingot::cuda {

INGOT_HEADS_KERNELS(Q4_K, Q6_K)

}  // namespace ingot::cuda
