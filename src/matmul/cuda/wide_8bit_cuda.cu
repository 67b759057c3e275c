// The kernel of nine to 32 rows of weights of 8 bits: of e4m3 alone, which it unpacks with one instruction a weight. Of
// other codes its sums and theirs find no room in registers, and the tall kernel is faster from nine rows on.
#include "matmul/cuda/wide_kernel.cuh"

namespace ingot::cuda {

INGOT_WIDE_KERNELS(F8_E4M3)

}  // namespace ingot::cuda
