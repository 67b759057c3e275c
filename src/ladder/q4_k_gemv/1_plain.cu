// A warp for each row, a lane for every 32nd value: code, scale and minimum are looked up for each of them.
#include "ladder/cuda_step.cuh"
#include "ladder/q4_k_gemv/q4_k_gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace q4_k_parts;

__global__ void __launch_bounds__(kThreads) gemv(const Product p) {
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= p.rows) return;
  float sum = 0;
  for (int part = 0; part < p.cols / 32; ++part) {
    const uint8_t* block = p.block(row, part / 8);
    const Affine of = affine_of(*reinterpret_cast<const uint4*>(block), part % 8);
    const int code = block[16 + part % 8 / 2 * 32 + lane] >> (part % 2 * 4) & 15;
    sum = __fmaf_rn(of.scale * static_cast<float>(code) - of.min, bf16_value(p.x[part * 32 + lane]), sum);
  }
  sum = warp_sum(sum);
  if (lane == 0) p.out[row] = sum;
}

}  // namespace

void run(const Q4KGemv& op, Ctx& ctx) {
  const Product p(op);
  if (p.rows > 0) launch(ctx, gemv, {ceil_div(p.rows, kWarps), kThreads}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
