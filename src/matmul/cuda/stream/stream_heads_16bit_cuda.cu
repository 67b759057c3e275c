// The kernel of q, k and v with their heads: BF16.
#include "matmul/cuda/stream/stream_heads_kernel.cuh"

namespace ingot::cuda {

INGOT_HEADS_KERNELS(BF16, BF16)

}  // namespace ingot::cuda
