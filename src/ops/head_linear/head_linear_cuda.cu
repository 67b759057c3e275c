#include "matmul/cuda/cuda_blas.h"
#include "matmul/cuda/heads.cuh"
#include "matmul/cuda/stream/stream_packing.h"
#include "ops/cuda/ops.h"
#include "ops/head_linear/head_linear.h"

namespace ingot::cuda {
namespace {

HeadsProduct product_of(const HeadLinear& op) {
  return {.x = Matrix(op.x),
          .weight = &op.weight,
          .packed = op.streamed.get(),
          .out = Matrix(op.out),
          .heads = op.heads,
          .tail = static_cast<int>(op.tail)};
}

// Many rows of bf16 by the library, all heads at once; false where it cannot. Own tiles open the packed weights again
// for each 256 rows: 42 to 67 TFLOP/s of 16,512 rows.
bool run_blas(const HeadLinear& op, const Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), inputs = op.weight.cols, outputs = op.outputs();
  const auto whole = [&](const Tensor& t, int64_t apart) {
    return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride % 8 == 0 && apart % 8 == 0;
  };
  if (ctx.blas == nullptr || ctx.batch_invariant || rows <= kStreamRows || op.weight.format != Format::kBF16 ||
      op.x.dtype != DType::kBF16 || (op.out.dtype != DType::kBF16 && op.out.dtype != DType::kF32) ||
      !whole(op.x, inputs + op.tail) || !whole(op.out, outputs + op.tail) || inputs % 8 != 0 || outputs % 8 != 0)
    return false;
  const Blas::Product product{.x = op.x.data,
                              .x_stride = op.x.stride,
                              .weights = op.weight.data,
                              .out = op.out.data,
                              .out_stride = op.out.stride,
                              .out_f32 = op.out.dtype == DType::kF32,
                              .rows = rows,
                              .n = outputs,
                              .cols = inputs,
                              .batch = op.heads,
                              .x_apart = inputs + op.tail,
                              .out_apart = outputs + op.tail};
  if (!ctx.blas->run(product, ctx.stream)) return false;
  copy_head_tails(product_of(op), rows, ctx);
  return true;
}

}  // namespace

void prepare(HeadLinear& op, Prepare& p) {
  DeviceCtx device;
  device.stream = p.stream;
  device.arch = p.arch;
  device.multiprocessors = p.multiprocessors;
  device.batch_invariant = p.batch_invariant;
  op.streamed = pack_heads(product_of(op), device, p.allocate);
  if (op.streamed == nullptr) return;
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  p.need_scratch(heads_scratch(product_of(op), rows));
}

void run(const HeadLinear& op, Ctx& ctx) {
  if (!run_blas(op, ctx)) multiply_heads(product_of(op), ctx.rows(op.x), ctx);
}

}  // namespace ingot::cuda
