// The kernel of nine to 32 rows, for weights of bf16 alone: its ring and plan (wide_plan.h) count two bytes for
// a weight, and a chunk as it lies is the matrix instruction's operand, so that consumers do nothing but multiply.
// Other formats: the streaming kernel is a template over them (StreamBF16), and run_any() takes every one.
#pragma once

#include "matmul/cuda/stream.cuh"
#include "matmul/cuda/wide_plan.h"

namespace ingot::cuda {

// REQUIRES: run.x is given.
void run_wide(const StreamRun& run, const WidePlan& plan, const DeviceCtx& ctx);

}  // namespace ingot::cuda
