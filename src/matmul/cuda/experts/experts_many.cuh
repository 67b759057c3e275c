// Experts that meet many places: products of tiles of up to 256 places by warpgroups (tall/tall_kernel.cuh). Weights
// other than bf16 are rounded to it.
#pragma once

#include "matmul/cuda/experts/experts.cuh"

namespace ingot::cuda {

// Whether a device of this compute capability (90: 9.0) has it.
bool experts_many_has(Format format, int arch);
// Places of a tile, for a bucket of `places` places of `count` experts.
int experts_many_tile(int64_t places, int64_t count);
// Bytes of scratch that run_experts_many() takes for so many places and columns.
int64_t experts_many_scratch(int64_t places, int64_t cols);
// REQUIRES: run.tile is experts_many_tile(); ctx's scratch has as many bytes.
void run_experts_many(const ExpertRun& run, const DeviceCtx& ctx);

}  // namespace ingot::cuda
