#include <cstring>

#include "base/check.h"
#include "ops/copy/copy.h"

namespace ingot::cpu {

void run(const Copy& op, Ctx& ctx) {
  CHECK(op.x.dtype == op.out.dtype && op.x.cols == op.out.cols, "{} columns of {} to {} of {}", op.x.cols,
        dtype_name(op.x.dtype), op.out.cols, dtype_name(op.out.dtype));
  const int64_t size = dtype_bytes(op.x.dtype);
  ctx.pool.run(ctx.rows(op.out), [&](int64_t t, int) {
    std::memcpy(op.out.data + t * op.out.stride * size, op.x.data + t * op.x.stride * size,
                static_cast<size_t>(op.x.cols * size));
  });
}

}  // namespace ingot::cpu
