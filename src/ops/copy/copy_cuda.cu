#include "base/check.h"
#include "cuda/elements.cuh"
#include "ops/copy/copy.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

// Rows of `n` elements of type T, `from_step` and `to_step` of them apart.
template <class T>
__global__ void copy_rows(const T* from, T* to, int64_t rows, int64_t n, int64_t from_step, int64_t to_step) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) to[r * to_step + i] = from[r * from_step + i];
}

template <class T>
bool fits(const Tensor& t) {
  const int64_t size = dtype_bytes(t.dtype), piece = sizeof(T);
  return reinterpret_cast<uintptr_t>(t.data) % sizeof(T) == 0 && t.stride * size % piece == 0 &&
         t.cols * size % piece == 0;
}

template <class T>
void copy_as(const Copy& op, int64_t rows, const Ctx& ctx) {
  const int64_t size = dtype_bytes(op.x.dtype), piece = sizeof(T), n = op.out.cols * size / piece;
  launch(ctx, copy_rows<T>, each_shape(rows, 4 * n), reinterpret_cast<const T*>(op.x.data),
         reinterpret_cast<T*>(op.out.data), rows, n, op.x.stride * size / piece, op.out.stride * size / piece);
}

}  // namespace

void run(const Copy& op, Ctx& ctx) {
  CHECK(op.x.dtype == op.out.dtype && dtype_bytes(op.x.dtype) > 0, "{} to {}", dtype_name(op.x.dtype),
        dtype_name(op.out.dtype));
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  if (fits<uint4>(op.x) && fits<uint4>(op.out)) {
    copy_as<uint4>(op, rows, ctx);
  } else if (fits<uint32_t>(op.x) && fits<uint32_t>(op.out)) {
    copy_as<uint32_t>(op, rows, ctx);
  } else {
    copy_as<uint16_t>(op, rows, ctx);
  }
}

}  // namespace ingot::cuda
