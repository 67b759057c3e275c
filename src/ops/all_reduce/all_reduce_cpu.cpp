#include <cstring>

#include "base/check.h"
#include "comm/comm.h"
#include "ops/all_reduce/all_reduce.h"

namespace ingot::cpu {

// By the calling thread: of a decode step it moves some KiB.
void run(const AllReduce& op, Ctx& ctx) {
  CHECK(op.comm != nullptr && op.x.stride == op.x.cols && op.out.stride == op.out.cols, "rows with gaps");
  const auto count = static_cast<size_t>(ctx.rows(op.out) * op.out.cols);
  if (op.out.data != op.x.data) std::memcpy(op.out.data, op.x.data, count * sizeof(float));
  op.comm->all_reduce(std::span(op.out.f32(0), count));
}

}  // namespace ingot::cpu
