// The kernels of rows of e4m3 and weights of e4m3 with one scale a row.
#include "matmul/cuda/f8/f8_kernel.cuh"

namespace ingot::cuda {

template void run_f8_kernel<false>(const F8Args& args, bool rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
