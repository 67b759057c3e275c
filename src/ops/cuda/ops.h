// The CUDA version of every op. One that is forgotten is a link error.
#pragma once

#include "ops/cuda/ctx.h"
#include "ops/op_list.inc"

namespace ingot::cuda {

#define X(TYPE, NAME) void run(const TYPE& op, Ctx& ctx);
INGOT_OPS(X)
#undef X

// What is chosen, packed or uploaded once.
void prepare(Linear& op, Prepare& p);
void prepare(Attention& op, Prepare& p);
void prepare(RopeTable& op, Prepare& p);
void prepare(Sample& op, Prepare& p);

}  // namespace ingot::cuda
