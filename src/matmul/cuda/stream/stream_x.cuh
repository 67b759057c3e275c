// How the streaming kernel comes by x: from shared memory, where each block makes it, or from the L2 cache.
#pragma once

#include "matmul/cuda/stream/stream.cuh"

namespace ingot::cuda {

inline constexpr int kStreamWarps = 8;

// x in shared memory: 32 bytes between rows, so that the eight rows of a load lie in different banks.
__host__ __device__ constexpr int64_t shared_x_stride(int64_t units) { return units * kStreamCols + 16; }

// x (normed where there is a weight, but for the division by its root: that is done to the sums) as bf16 to shared
// memory, by `share` warps for each row. Leaves the sums of squares of each warp's part in `squares`.
__device__ inline void stage_x(const StreamArgs& args, uint16_t* to, float* squares, int share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = shared_x_stride(args.units);
  const InputArgs& in = args.input;
  for (int row = warp / share; row < args.rows; row += kStreamWarps / share) {
    float sum = 0;
    const std::byte* from = in.x.row(row);
    uint16_t* out = to + row * stride;
#pragma unroll 8
    for (int i = (warp % share * 32 + lane) * 2; i < args.units * kStreamCols; i += share * 64) {
      float a = i < in.x.cols ? load_value(from, i, in.x.dtype) : 0.0f;
      float b = i + 1 < in.x.cols ? load_value(from, i + 1, in.x.dtype) : 0.0f;
      if (in.weight != nullptr) {
        sum += a * a;
        sum += b * b;
        if (i < in.x.cols) a *= in.weight[i];
        if (i + 1 < in.x.cols) b *= in.weight[i + 1];
      }
      *reinterpret_cast<uint32_t*>(out + i) = pack_bf16(a, b);
    }
    sum = warp_sum(sum);
    if (lane == 0) squares[row * kStreamWarps + warp % share] = sum;
  }
}

// The same for rows of f32 whose ends are aligned: 16 bytes at a time.
__device__ inline void stage_x_aligned(const StreamArgs& args, uint16_t* to, float* squares, int share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = shared_x_stride(args.units);
  const InputArgs& in = args.input;
  for (int row = warp / share; row < args.rows; row += kStreamWarps / share) {
    float sum = 0;
    const float* from = reinterpret_cast<const float*>(in.x.row(row));
    uint16_t* out = to + row * stride;
#pragma unroll 4
    for (int i = (warp % share * 32 + lane) * 4; i < args.units * kStreamCols; i += share * 128) {
      float4 v = *reinterpret_cast<const float4*>(from + i);
      if (in.weight != nullptr) {
        const float4 w = *reinterpret_cast<const float4*>(in.weight + i);
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        v.x *= w.x, v.y *= w.y, v.z *= w.z, v.w *= w.w;
      }
      *reinterpret_cast<uint2*>(out + i) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    }
    sum = warp_sum(sum);
    if (lane == 0) squares[row * kStreamWarps + warp % share] = sum;
  }
}

// x and scale[row] into shared memory.
__device__ inline void prepare_x(const StreamArgs& args, uint16_t* x, float* squares, float* scale) {
  int share = kStreamWarps;
  while (share > 1 && args.rows * share > kStreamWarps) share /= 2;
  const InputArgs& in = args.input;
  const bool aligned = in.x.dtype == DType::kF32 && in.x.cols == args.units * kStreamCols && in.x.stride % 4 == 0 &&
                       (reinterpret_cast<uintptr_t>(in.x.data) | reinterpret_cast<uintptr_t>(in.weight)) % 16 == 0;
  if (aligned) {
    stage_x_aligned(args, x, squares, share);
  } else {
    stage_x(args, x, squares, share);
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row < args.rows) {
    float sum = 0;
    for (int i = 0; i < share; ++i) sum += squares[row * kStreamWarps + i];
    scale[row] = in.weight != nullptr ? inverse_root(sum, in.x.cols, in.eps) : 1.0f;
  }
}

// scale[row] of rows that the product before left behind, a warp for each row: asked for first, added up when it has
// come.
struct Squares {
  static constexpr int kAtOnce = 8;
  const float* from = nullptr;  // null: this warp has no row
  float part[kAtOnce] = {};

  __device__ void ask(const StreamArgs& args) {
    const int row = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (args.from.weight == nullptr || row >= args.rows) return;
    from = args.from.squares + int64_t{row} * args.from.parts + lane;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (lane + 32 * j < args.from.parts) part[j] = from[32 * j];
    }
  }
  __device__ void make_scale(const StreamArgs& args, float* scale) const {
    if (from == nullptr) return;
    const int row = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) sum += part[j];
    for (int j = kAtOnce; lane + 32 * j < args.from.parts; ++j) sum += from[32 * j];
    sum = warp_sum(sum);
    if (lane == 0) scale[row] = inverse_root(sum, args.from.x.cols, args.from.eps);
  }
};

// Where this lane finds its eight columns of a unit of x, of row lane / 4; of the last where there is no such row,
// whose products nobody reads: to ask costs less than zeros. kBySixteens: four of the unit's first sixteen columns and
// four of its last.
template <bool kShared, bool kBySixteens>
struct XRow {
  const std::byte* at;

  __device__ XRow(const StreamArgs& args, const uint16_t* shared, int lane) {
    const int row = min(lane / 4, args.rows - 1);
    at = kShared ? reinterpret_cast<const std::byte*>(shared + row * shared_x_stride(args.units)) : args.x.row(row);
    at += lane % 4 * (kBySixteens ? 8 : 16);
  }
  __device__ uint4 load(int unit) const {
    const std::byte* from = at + int64_t{unit} * (kStreamCols * 2);
    if constexpr (!kBySixteens) return *reinterpret_cast<const uint4*>(from);
    const uint2 a = *reinterpret_cast<const uint2*>(from), b = *reinterpret_cast<const uint2*>(from + 32);
    return make_uint4(a.x, a.y, b.x, b.y);
  }
};

}  // namespace ingot::cuda
