// The kernels of few and of some places of experts: K-quants.
#include "matmul/cuda/experts/experts_some_kernel.cuh"
#include "matmul/cuda/experts/experts_stream_kernel.cuh"

namespace ingot::cuda {

INGOT_EXPERT_KERNELS(Q2_K)
INGOT_SOME_KERNELS(Q2_K)
INGOT_EXPERT_KERNELS(Q3_K)
INGOT_SOME_KERNELS(Q3_K)
INGOT_EXPERT_KERNELS(Q4_K)
INGOT_SOME_KERNELS(Q4_K)
INGOT_EXPERT_KERNELS(Q5_K)
INGOT_SOME_KERNELS(Q5_K)
INGOT_EXPERT_KERNELS(Q6_K)
INGOT_SOME_KERNELS(Q6_K)

}  // namespace ingot::cuda
