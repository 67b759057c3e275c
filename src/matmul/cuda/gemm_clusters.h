// The two kernels behind run_gemm() (parts.cuh). The first alone serves where the bits of a row may not depend on how
// many there are.
#pragma once

#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {

// Tiles of 128 x 128 by matrix instructions of warps: everywhere.
void run_gemm_tiles(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx);
// By clusters and products of warpgroups. False: the device or the number of tiles is not for it, and nothing was done.
bool run_gemm_clusters(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
