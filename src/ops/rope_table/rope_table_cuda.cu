#include "base/check.h"
#include "cuda/kernel.cuh"
#include "ops/cuda/ctx.h"
#include "ops/rope_table/rope_table.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 128;

// A thread for each (row, frequency). cosf and sinf are the exact kind: angles reach the context's length in radians.
__global__ void rope_table(View out, const float* __restrict__ inv_freq, int half, float magnitude,
                           const int32_t* counts, const int32_t* position) {
  let_next_begin();
  wait_for_inputs();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t t = item / half;
  const int i = static_cast<int>(item % half);
  if (t >= counts[0]) return;
  const float angle = static_cast<float>(position[t]) * inv_freq[i];
  float* row = reinterpret_cast<float*>(out.row(t));
  row[i] = cosf(angle) * magnitude;
  row[i + half] = sinf(angle) * magnitude;
}

}  // namespace

void prepare(RopeTable& op, Prepare& p) {
  op.device_inv_freq = p.upload(op.inv_freq.data(), static_cast<int64_t>(op.inv_freq.size()));
}

void run(const RopeTable& op, Ctx& ctx) {
  const int64_t half = static_cast<int64_t>(op.inv_freq.size());
  CHECK(op.device_inv_freq != nullptr, "not prepared");
  CHECK(op.out.cols == 2 * half, "{} columns for {} frequencies", op.out.cols, half);
  const int64_t items = ctx.rows(op.out) * half;
  if (items == 0) return;
  launch(ctx, rope_table, {dim3(static_cast<unsigned>(ceil_div(items, kThreads))), dim3(kThreads)}, View(op.out),
         op.device_inv_freq, static_cast<int>(half), op.magnitude, ctx.batch.counts, ctx.batch.position);
}

}  // namespace ingot::cuda
