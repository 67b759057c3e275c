// The kernels of few and of some places of experts: weights of 8 bits.
#include "matmul/cuda/experts/experts_some_kernel.cuh"
#include "matmul/cuda/experts/experts_stream_kernel.cuh"

namespace ingot::cuda {

INGOT_EXPERT_KERNELS(Q8_0)
INGOT_SOME_KERNELS(Q8_0)
INGOT_EXPERT_KERNELS(INT8)
INGOT_SOME_KERNELS(INT8)
INGOT_EXPERT_KERNELS(F8_E4M3)
INGOT_SOME_KERNELS(F8_E4M3)
INGOT_EXPERT_KERNELS(F8_E5M2)
INGOT_SOME_KERNELS(F8_E5M2)

}  // namespace ingot::cuda
