// The kernel of nine to 32 rows.
#pragma once

#include "ops/linear/linear_stream.cuh"
#include "ops/linear/linear_wide_plan.h"

namespace ingot::cuda {

// REQUIRES: run.x is given.
void run_wide(const StreamRun& run, const WidePlan& plan, const Ctx& ctx);

}  // namespace ingot::cuda
