// The streaming kernels of experts: weights of 16 bits.
#include "matmul/cuda/experts/experts_stream_kernel.cuh"

namespace ingot::cuda {

INGOT_EXPERT_KERNELS(BF16)
INGOT_EXPERT_KERNELS(F16)

}  // namespace ingot::cuda
