#include "base/check.h"
#include "ops/all_reduce/all_reduce.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {

// Ranks on devices gather: make_engine() refuses any other form.
void run(const AllReduce& op, Ctx&) { CHECK(false, "ranks on a device: {}", op.comm != nullptr); }

}  // namespace ingot::cuda
