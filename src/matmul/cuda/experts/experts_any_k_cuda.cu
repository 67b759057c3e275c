// Experts of published weights in large blocks.
#include "matmul/cuda/experts/experts_any_kernel.cuh"

namespace ingot::cuda {

INGOT_ANY_EXPERTS(INT4)
INGOT_ANY_EXPERTS(INT4_ASYM)
INGOT_ANY_EXPERTS(INT8)
INGOT_ANY_EXPERTS(IQ4_XS)
INGOT_ANY_EXPERTS(Q2_K)
INGOT_ANY_EXPERTS(Q3_K)
INGOT_ANY_EXPERTS(Q4_K)
INGOT_ANY_EXPERTS(Q5_K)
INGOT_ANY_EXPERTS(Q6_K)

}  // namespace ingot::cuda
