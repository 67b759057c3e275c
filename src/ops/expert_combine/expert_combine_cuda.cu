#include "base/check.h"
#include "ops/cuda/ops.h"
#include "ops/expert_combine/expert_combine.h"

namespace ingot::cuda {

// Experts are spread over ranks of the CPU alone: make_engine() refuses it on a device.
void run(const ExpertCombine&, Ctx&) { CHECK(false, "experts of several ranks on a device"); }

}  // namespace ingot::cuda
