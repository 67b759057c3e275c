// The streaming kernel of weights and rows of e4m3.
#include "matmul/cuda/stream/stream_f8.cuh"
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {

INGOT_STREAM_KERNELS(F8Rows)

}  // namespace ingot::cuda
