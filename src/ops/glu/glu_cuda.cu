#include "cuda/activate.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/glu/glu.h"

namespace ingot::cuda {
namespace {

template <ActivationKind kKind>
struct Gate {
  static constexpr int kInputs = 2;
  __device__ float operator()(float gate, float up) const { return gated<kKind>(gate, up); }
};

// One gate for all columns of a row.
template <ActivationKind kKind>
__global__ void gate_rows(View out, View gate, View up, int64_t rows) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (4 * i >= out.cols) return;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const float g = load_value(gate.row(r), 0, gate.dtype);
    Four x = get_four(up.row(r), i, out.cols, up.dtype, false);
#pragma unroll
    for (int k = 0; k < 4; ++k) x.v[k] = gated<kKind>(g, x.v[k]);
    put_four(out.row(r), i, out.cols, out.dtype, false, x);
  }
}

}  // namespace

void run(const Glu& op, Ctx& ctx) {
  if (op.gate.cols == 1) {
    const int64_t rows = ctx.rows(op.out);
    if (rows == 0) return;
    return visit_activation(op.kind, [&]<ActivationKind kKind>() {
      launch(ctx, gate_rows<kKind>, each_shape(rows, op.out.cols), View(op.out), View(op.gate), View(op.up), rows);
    });
  }
  visit_activation(op.kind, [&]<ActivationKind kKind>() { launch_each(ctx, op.out, op.gate, op.up, Gate<kKind>{}); });
}

}  // namespace ingot::cuda
