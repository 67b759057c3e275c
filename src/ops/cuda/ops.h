// The CUDA version of every op. One that is forgotten is a link error.
#pragma once

#include "ops/cuda/ctx.h"
#include "ops/op_list.inc"

namespace ingot::cuda {

#define X(TYPE, NAME) void run(const TYPE& op, Ctx& ctx);
INGOT_OPS(X)
#undef X

// What is chosen, packed or uploaded once.
void prepare(AllGather& op, Prepare& p);
void prepare(Linear& op, Prepare& p);
// After prepare(): whether it has packed its matrices and reads them no more as they are published. Then it knows their
// places no more.
bool leave_published(Linear& op);
// After prepare() of both, where the second runs right after the first: what is between them is done on the way. False:
// nothing is.
bool link(Linear& first, Linear& second, Prepare& p);
void prepare(Attention& op, Prepare& p);
void prepare(RopeTable& op, Prepare& p);
void prepare(Sample& op, Prepare& p);
void prepare(ExpertLinear& op, Prepare& p);
void prepare(HeadLinear& op, Prepare& p);
bool leave_published(ExpertLinear& op);
bool link(ExpertLinear& first, ExpertLinear& second, Prepare& p);
bool link(RmsNorm& norm, Linear& router, Prepare& p);
bool link(Linear& router, RouterTopk& topk, Prepare& p);
bool link(ExpertLinear& experts, Linear& next, Prepare& p);
// Where the sum that `op` norms can be made before it: what is left for it then, else null.
struct NormLink;
const NormLink* link_input(Linear& op, Prepare& p);
bool link(RouterTopk& topk, ExpertLinear& experts, Prepare& p);

}  // namespace ingot::cuda
