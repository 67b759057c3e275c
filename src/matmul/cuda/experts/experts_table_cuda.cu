// The kernels of few and of some places of experts: weights of 4 bits that index a table, and of 5 bits.
#include "matmul/cuda/experts/experts_some_kernel.cuh"
#include "matmul/cuda/experts/experts_stream_kernel.cuh"

namespace ingot::cuda {

INGOT_EXPERT_KERNELS(IQ4_NL)
INGOT_SOME_KERNELS(IQ4_NL)
INGOT_EXPERT_KERNELS(IQ4_XS)
INGOT_SOME_KERNELS(IQ4_XS)
INGOT_EXPERT_KERNELS(Q5_0)
INGOT_SOME_KERNELS(Q5_0)
INGOT_EXPERT_KERNELS(Q5_1)
INGOT_SOME_KERNELS(Q5_1)

}  // namespace ingot::cuda
