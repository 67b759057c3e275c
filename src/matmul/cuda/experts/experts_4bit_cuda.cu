// The kernels of few and of some places of experts: weights of 4 bits in groups of their own.
#include "matmul/cuda/experts/experts_some_kernel.cuh"
#include "matmul/cuda/experts/experts_stream_kernel.cuh"

namespace ingot::cuda {

INGOT_EXPERT_KERNELS(Q4_0)
INGOT_SOME_KERNELS(Q4_0)
INGOT_EXPERT_KERNELS(Q4_1)
INGOT_SOME_KERNELS(Q4_1)
INGOT_EXPERT_KERNELS(INT4)
INGOT_SOME_KERNELS(INT4)
INGOT_EXPERT_KERNELS(INT4_ASYM)
INGOT_SOME_KERNELS(INT4_ASYM)
INGOT_EXPERT_KERNELS(MXFP4)
INGOT_SOME_KERNELS(MXFP4)
INGOT_EXPERT_KERNELS(NVFP4)
INGOT_SOME_KERNELS(NVFP4)

}  // namespace ingot::cuda
