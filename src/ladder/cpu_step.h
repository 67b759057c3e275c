// What a CPU step of a ladder includes beside its operator's header. It is compiled once for each instruction set, so
// what it defines beside run() lies in an unnamed namespace (cpu/isa_source.h says why).
#pragma once

#include "cpu/cpu_math.h"
#include "cpu/simd.h"
#include "ladder/step.h"
#include "ops/row_loop.h"

#if !defined(INGOT_STEP)
#error "INGOT_STEP, the namespace of a step, is set by the unit of its operator that cmake/ladder.cmake writes"
#endif
