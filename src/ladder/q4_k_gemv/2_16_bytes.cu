// 16 bytes of a lane are 32 codes of two scales: a scale multiplies the sum of 16 products, a minimum that of 16 x.
#include "ladder/cuda_step.cuh"
#include "ladder/q4_k_gemv/q4_k_gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace q4_k_parts;

__global__ void __launch_bounds__(kThreads) gemv(const Product p) {
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32, piece = lane % 8;
  if (row >= p.rows) return;
  float sum = 0;
  for (int i = lane / 8; i < p.blocks(); i += 4) {
    const uint8_t* block = p.block(row, i);
    const uint4 head = load_stream(block), codes = load_stream(block + 16 + piece * 16);
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    const uint16_t* x = p.x + i * kBlockValues + piece / 2 * 64 + piece % 2 * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[16], products = 0, of_x = 0;
      open_eight(*reinterpret_cast<const uint4*>(x + 32 * half), values);
      open_eight(*reinterpret_cast<const uint4*>(x + 32 * half + 8), values + 8);
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const float code = static_cast<float>(words[e / 4] >> (e % 4 * 8 + half * 4) & 15u);
        products = __fmaf_rn(code, values[e], products);
        of_x += values[e];
      }
      const Affine of = affine_of(head, piece / 2 * 2 + half);
      sum = __fmaf_rn(of.scale, products, __fmaf_rn(-of.min, of_x, sum));
    }
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
