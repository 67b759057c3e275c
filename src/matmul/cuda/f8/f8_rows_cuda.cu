// Rows of x, normed where that is asked for, as e4m3 in the order in which f8_kernel.cuh reads them.
#include "base/check.h"
#include "matmul/cuda/f8/f8.cuh"
#include "matmul/cuda/f8/f8_rows.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // columns of a thread at a time: 16 threads have those of a scale

__device__ inline void load_eight(const View& from, int64_t row, int64_t col, bool wide, float (&x)[kEach]) {
  if (!wide) {
    const std::byte* at = from.row(row);
#pragma unroll
    for (int e = 0; e < kEach; ++e) x[e] = load_value(at, col + e, from.dtype);
    return;
  }
  if (from.dtype == DType::kF32) {
    const float4* at = reinterpret_cast<const float4*>(from.row(row) + col * 4);
    const float4 a = at[0], b = at[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    return;
  }
  const uint4 v = *reinterpret_cast<const uint4*>(from.row(row) + col * 2);
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int e = 0; e < 4; ++e)
    x[2 * e] = __uint_as_float(words[e] << 16), x[2 * e + 1] = __uint_as_float(words[e] & 0xffff0000u);
}
// In vectors of 16 bytes.
bool is_wide(const View& v) {
  const int bytes = v.dtype == DType::kF32 ? 4 : 2;
  return v.dtype != DType::kF16 && reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride * bytes % 16 == 0;
}

// Eight columns of a row from col on, by 16 neighbouring lanes for each scale; the whole warp comes here.
__device__ inline void round_eight(const float (&x)[kEach], int64_t row, int64_t col, float root, bool valid,
                                   const F8Rows& to) {
  uint32_t pairs[kEach / 2], most = 0;
#pragma unroll
  for (int e = 0; e < kEach / 2; ++e) {
    pairs[e] = pack_bf16(x[2 * e], x[2 * e + 1]);
    most = larger_halves(most, pairs[e] & 0x7fff7fffu);
  }
  most = larger_halves(most, most >> 16);
#pragma unroll
  for (int d = 8; d > 0; d >>= 1) most = larger_halves(most, __shfl_xor_sync(0xffffffffu, most, d));
  if (!valid) return;
  const uint32_t exponent = f8_exponent(most & 0xffffu);
  const float by = __uint_as_float(f8_inverse_bits(exponent));
  const auto low = [&](uint32_t two) { return __uint_as_float(two << 16) * by; };
  const auto high = [&](uint32_t two) { return __uint_as_float(two & 0xffff0000u) * by; };
  uint32_t words[2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const uint32_t first = pairs[2 * s], second = pairs[2 * s + 1];
    words[s] = round_to_fp8(low(second), low(first)) | round_to_fp8(high(second), high(first)) << 16;
  }
  // f8_col() the other way round.
  const int in_chunk = static_cast<int>(col) % kF8Cols, unit = in_chunk / 32, t = in_chunk % 32 / 8;
  const int64_t line = col / kF8Cols * to.rows + row;
  std::byte* at = to.codes + line * kF8Cols + kv_piece(static_cast<int>(row), unit / 2 * 4 + t) * 16 + unit % 2 * 8;
  *reinterpret_cast<uint2*>(at) = make_uint2(words[0], words[1]);
  if (in_chunk == 0) to.scales[line] = __uint_as_float(f8_scale_bits(exponent)) * root;
}

// The last rows first, as the norms of vectors_cuda.cu.
__global__ void __launch_bounds__(kThreads)
    f8_plain_rows(const View x, const int32_t* gather, bool wide, int64_t rows, const F8Rows to) {
  let_next_begin();
  wait_for_inputs();
  const int64_t eights = x.cols / kEach;
  const int64_t index = int64_t{gridDim.x - 1 - blockIdx.x} * kThreads + threadIdx.x;
  const bool valid = index < rows * eights;
  const int64_t row = valid ? index / eights : 0, col = valid ? index % eights * kEach : 0;
  float of[kEach];
  load_eight(x, gather != nullptr ? gather[row] : row, col, wide, of);
  round_eight(of, row, col, 1.0f, valid, to);
}

// A row in the registers of a block: kTimes times eight columns a thread.
template <int kTimes>
__global__ void __launch_bounds__(kThreads)
    f8_norm_rows(const InputArgs in, const int32_t* gather, bool rooted, bool wide, const F8Rows to) {
  __shared__ float room[32];
  let_next_begin();
  const int64_t row = gridDim.x - 1 - blockIdx.x;
  const int cols = in.x.cols, first = static_cast<int>(threadIdx.x) * kEach;
  const View weights = [&] {
    View v;
    v.data = reinterpret_cast<std::byte*>(const_cast<float*>(in.weight));
    v.cols = cols;
    return v;
  }();
  float weight[kTimes][kEach] = {};
#pragma unroll
  for (int j = 0; j < kTimes; ++j)
    if (first + j * kThreads * kEach < cols) load_eight(weights, 0, first + j * kThreads * kEach, wide, weight[j]);
  wait_for_inputs();
  const int64_t from_row = gather != nullptr ? gather[row] : row;
  float x[kTimes][kEach] = {};
#pragma unroll
  for (int j = 0; j < kTimes; ++j)
    if (first + j * kThreads * kEach < cols) load_eight(in.x, from_row, first + j * kThreads * kEach, wide, x[j]);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kTimes; ++j)
#pragma unroll
    for (int e = 0; e < kEach; ++e) squares += x[j][e] * x[j][e];
  const float root = inverse_root(block_sum(squares, room), cols, in.eps);
#pragma unroll
  for (int j = 0; j < kTimes; ++j) {
    const int col = first + j * kThreads * kEach;
#pragma unroll
    for (int e = 0; e < kEach; ++e) x[j][e] = (rooted ? x[j][e] * root : x[j][e]) * weight[j][e];
    round_eight(x[j], row, col < cols ? col : 0, rooted ? 1.0f : root, col < cols, to);
  }
}

}  // namespace

void make_f8_rows(const InputArgs& in, const int32_t* gather, bool rooted, int64_t rows, const F8Rows& out,
                  const DeviceCtx& ctx) {
  const bool wide = is_wide(in.x);
  CHECK(in.x.cols % kF8Cols == 0 && in.add.data == nullptr, "{} columns", in.x.cols);
  if (in.weight == nullptr) {
    const dim3 grid(ceil_div(rows * (in.x.cols / kEach), kThreads));
    return launch(ctx, f8_plain_rows, {grid, dim3(kThreads)}, in.x, gather, wide, rows, out);
  }
  CHECK(in.x.cols <= kF8NormCols, "{} columns", in.x.cols);
  const bool all_wide = wide && reinterpret_cast<uintptr_t>(in.weight) % 16 == 0;
  const Launch shape{dim3(rows), dim3(kThreads)};
  const auto times = ceil_div(in.x.cols, kThreads * kEach);
  if (times <= 1) return launch(ctx, f8_norm_rows<1>, shape, in, gather, rooted, all_wide, out);
  if (times <= 2) return launch(ctx, f8_norm_rows<2>, shape, in, gather, rooted, all_wide, out);
  if (times <= 4) return launch(ctx, f8_norm_rows<4>, shape, in, gather, rooted, all_wide, out);
  launch(ctx, f8_norm_rows<8>, shape, in, gather, rooted, all_wide, out);
}

}  // namespace ingot::cuda
