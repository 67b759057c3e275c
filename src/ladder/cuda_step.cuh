// What a CUDA step of a ladder includes beside its operator's header.
#pragma once

#include "cuda/elements.cuh"
#include "cuda/kernel.cuh"
#include "ladder/step.h"
#include "ops/cuda/ops.h"

#if !defined(INGOT_STEP)
#error "INGOT_STEP, the namespace of a step, is set by the unit of its operator that cmake/ladder.cmake writes"
#endif
