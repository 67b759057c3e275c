// Memory, planned once for the largest step: every activation gets a fixed place in one arena.
#pragma once

#include "graph/program.h"

namespace ingot {

// Sets every value's offset and the arena's size. Values whose lifetimes overlap never overlap in memory; an output
// takes the place of an input where its op allows that and the input is read for the last time. A value of the body
// that the head reads, and a named output, live until the next step.
void plan(Program& program);

// Bytes of a value in the largest step, rounded up to a cache line.
int64_t value_bytes(const Value& value, const StepLimits& limits);

}  // namespace ingot
