// The kernel of nine to 32 rows: who has it, and how it is called.
#pragma once

#include "matmul/cuda/stream/stream.cuh"
#include "matmul/cuda/wide/wide_plan.h"

namespace ingot::cuda {

// Whether a device of this compute capability (90: 9.0) has it.
bool wide_has(Format format, int arch);
// REQUIRES: run.x is given, and wide_has() the part's format.
void run_wide(const StreamRun& run, const DeviceCtx& ctx);

// What a format (stream_formats.cuh) brings in a step. Eight slices are bf16's alone: for the others four are enough,
// and a kernel less is built.
template <class W>
constexpr WideStep wide_step() {
  constexpr int kUnits = W::kByGroups || W::kUnits > 2 ? 4 : 2;
  return {.units = kUnits, .sixteen_bytes = kUnits / W::kUnits * W::kBytes, .most_slices = W::kByGroups ? 4 : 8};
}

}  // namespace ingot::cuda
