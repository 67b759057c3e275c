// The kernel of nine to 32 rows: who has it, and how it is called.
#pragma once

#include "matmul/cuda/stream/stream.cuh"
#include "matmul/cuda/wide/wide_plan.h"

namespace ingot::cuda {

// Whether a device of this compute capability (90: 9.0) has it.
bool wide_has(Format format, int arch);
// REQUIRES: run.x is given, and wide_has() the part's format.
void run_wide(const StreamRun& run, const DeviceCtx& ctx);

}  // namespace ingot::cuda
