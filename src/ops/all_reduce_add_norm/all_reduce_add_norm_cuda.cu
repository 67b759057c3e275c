#include "base/check.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {

// Ranks on devices gather: make_engine() refuses any other form.
void run(const AllReduceAddNorm& op, Ctx&) { CHECK(false, "ranks on a device: {}", op.comm != nullptr); }

}  // namespace ingot::cuda
