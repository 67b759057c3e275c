// A lane has the same 32 columns of four rows: x and its sums stay in registers; a code is a float by a mask alone.
#include "ladder/cuda_step.cuh"
#include "ladder/q4_k_gemv/q4_k_gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace q4_k_parts;

constexpr int kSome = 4, kRows = 4;  // warps, rows of a block: 4 x 4 blocks of values are a row of 4,096
constexpr int kPass = kSome * 4;

// Codes of one half of each byte, as 128 + code: seven bits of mantissa behind 2^7 are whole numbers. `shift` brings
// the four bits of byte e to bit 16.
template <int kHalf>
__device__ float dot_codes(const uint32_t (&words)[4], const float (&x)[16]) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 16; ++e) {
    const int bit = e % 4 * 8 + kHalf * 4;
    const uint32_t at = bit < 16 ? words[e / 4] << (16 - bit) : words[e / 4] >> (bit - 16);
    sum = __fmaf_rn(__uint_as_float((at & 0xf0000u) | 0x43000000u), x[e], sum);
  }
  return sum;
}

__global__ void __launch_bounds__(kSome * 32) gemv(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[kSome][kRows];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, piece = lane % 8;
  const int first = static_cast<int>(blockIdx.x) * kRows, rows = min(kRows, p.rows - first);
  float sums[kRows] = {};
  for (int i = warp * 4 + lane / 8; i < p.blocks(); i += kPass) {
    float x[2][16], of_x[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = p.x + i * kBlockValues + piece / 2 * 64 + piece % 2 * 16 + 32 * half;
      open_eight(*reinterpret_cast<const uint4*>(from), x[half]);
      open_eight(*reinterpret_cast<const uint4*>(from + 8), x[half] + 8);
#pragma unroll
      for (int e = 0; e < 16; ++e) of_x[half] += x[half][e];
    }
    uint4 heads[kRows], codes[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* block = p.block(first + min(r, rows - 1), i);
      heads[r] = load_stream(block);
      codes[r] = load_stream(block + 16 + piece * 16);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t words[4] = {codes[r].x, codes[r].y, codes[r].z, codes[r].w};
      const Affine low = affine_of(heads[r], piece / 2 * 2), high = affine_of(heads[r], piece / 2 * 2 + 1);
      const float of_low = dot_codes<0>(words, x[0]) - 128 * of_x[0],
                  of_high = dot_codes<1>(words, x[1]) - 128 * of_x[1];
      sums[r] = __fmaf_rn(low.scale, of_low, __fmaf_rn(-low.min, of_x[0], sums[r]));
      sums[r] = __fmaf_rn(high.scale, of_high, __fmaf_rn(-high.min, of_x[1], sums[r]));
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = warp_sum(sums[r]);
    if (lane == 0) room[warp][r] = sum;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= rows) return;
  float sum = 0;
  for (int w = 0; w < kSome; ++w) sum += room[w][threadIdx.x];
  p.out[first + static_cast<int>(threadIdx.x)] = sum;
}

}  // namespace

void run(const Q4KGemv& op, Ctx& ctx) {
  const Product p(op);
  if (p.rows > 0) launch(ctx, gemv, {ceil_div(p.rows, kRows), kSome * 32}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
