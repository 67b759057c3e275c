// What a device keeps of experts, for the files that run them.
#pragma once

#include <memory>

#include "matmul/cuda/experts/experts.cuh"
#include "ops/cuda/ops.h"
#include "ops/expert_linear/expert_linear.h"
#include "ops/expert_linear/expert_one.cuh"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {

// What a run needs beside the op, in memory of the device.
struct DeviceExperts {
  PackedExperts packed;           // weights null: they are read as they are published
  PublishedExperts published[2];  // of each part
  ExpertList list;
  bool streams = false;  // some op that reads the list has packed weights
  bool some = false;     // all of them have those of experts_some.cuh
  bool many = false;     // and those of experts_many.cuh
  // The experts before it that meet the same places: they have sorted them already.
  std::shared_ptr<DeviceExperts> sorted = nullptr;
  bool follows = false;  // and their last kernel is that of their packed weights
  // What the router before it does for few rows: the list, and x as bf16 where that is what it has normed.
  std::shared_ptr<DeviceRoute> route = nullptr;
  bool x_of_route = false;
  // What the linear after it leaves to its sum for few rows: the residual, where both go, and the norm's part.
  const NormLink* next = nullptr;
  View residual, sum;
  // What both experts' ops and the router before them are for one row: given by the second.
  std::shared_ptr<ExpertOneArgs> one = nullptr;
  Tensor x, normed, out;  // of that launch: of the route, of the first op, of the second

  bool is_packed() const { return packed.weights != nullptr; }
  const DeviceExperts& first() const { return sorted != nullptr ? *sorted : *this; }
};

inline const int32_t* rows_of_step(const Tensor& t, const Ctx& ctx) {
  return ctx.batch.counts + (t.rows.kind == RowKind::kLogits ? 2 : 0);
}

// expert_one_link_cuda.cu: one launch for one row, from the norm to the sum, where both experts' ops are those of a
// gated MLP without biases, in formats that have a kernel, and columns fill the device.
void link_one(ExpertLinear& first, ExpertLinear& second, Prepare& p);
// Then the sum with the residual goes to `sum`, or there is no such launch.
void end_one(ExpertLinear& second, const Tensor& sum, const Prepare& p);
// `next` may be gate and up of what every row meets, in that launch too.
bool begin_shared(ExpertLinear& second, Linear& next);
// By the second.
void run_one(const ExpertLinear& op, Ctx& ctx);

}  // namespace ingot::cuda
