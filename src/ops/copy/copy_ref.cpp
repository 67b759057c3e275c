#include "base/check.h"
#include "ops/copy/copy.h"

namespace ingot::ref {

void run(const Copy& op, Ctx& ctx) {
  CHECK(op.x.dtype == op.out.dtype, "{} to {}", dtype_name(op.x.dtype), dtype_name(op.out.dtype));
  const int64_t size = dtype_bytes(op.x.dtype);
  for (int64_t t = 0; t < ctx.rows(op.out); ++t)
    for (int64_t i = 0; i < op.out.cols * size; ++i)
      op.out.data[t * op.out.stride * size + i] = op.x.data[t * op.x.stride * size + i];
}

}  // namespace ingot::ref
