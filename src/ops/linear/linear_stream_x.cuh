// How the streaming kernel comes by x: from shared memory, where each block makes it, or from the second-level cache.
#pragma once

#include "ops/linear/linear_stream.cuh"

namespace ingot::cuda {

inline constexpr int kStreamWarps = 8;

// x in shared memory: 32 bytes between rows, so that the eight rows of a load lie in different banks.
__host__ __device__ constexpr int64_t shared_x_stride(int64_t chunks) { return chunks * kStreamCols + 16; }

// x (normed where there is a weight, but for the division by its root: that is done to the sums) as bf16 to shared
// memory, by `share` warps for each row. Leaves the sums of squares of each warp's part in `squares`. kAligned: x is of
// f32, of whole chunks, and it and the weight lie on borders of 16 bytes.
template <bool kAligned>
__device__ inline void stage_x(const StreamArgs& args, uint16_t* to, float* squares, int share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = shared_x_stride(args.chunks);
  const InputArgs& in = args.input;
  const auto one = [&](const std::byte* from, int i, DType dtype) {
    return i < in.x.cols ? load_value(from, i, dtype) : 0.0f;
  };
  const auto four = [&](const std::byte* from, int i, DType dtype) {
    if constexpr (kAligned) {
      return *reinterpret_cast<const float4*>(from + int64_t{i} * 4);
    } else {
      return make_float4(one(from, i, dtype), one(from, i + 1, dtype), one(from, i + 2, dtype),
                         one(from, i + 3, dtype));
    }
  };
  for (int row = warp / share; row < args.rows; row += kStreamWarps / share) {
    float sum = 0;
    uint16_t* out = to + row * stride;
#pragma unroll 4
    for (int i = (warp % share * 32 + lane) * 4; i < args.chunks * kStreamCols; i += share * 128) {
      float4 v = four(in.x.row(row), i, in.x.dtype);
      if (in.weight != nullptr) {
        const float4 w = four(reinterpret_cast<const std::byte*>(in.weight), i, DType::kF32);
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
  const bool aligned = in.x.dtype == DType::kF32 && in.x.cols == args.chunks * kStreamCols && in.x.stride % 4 == 0 &&
                       (reinterpret_cast<uintptr_t>(in.x.data) | reinterpret_cast<uintptr_t>(in.weight)) % 16 == 0;
  if (aligned) {
    stage_x<true>(args, x, squares, share);
  } else {
    stage_x<false>(args, x, squares, share);
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row < args.rows) {
    float sum = 0;
    for (int i = 0; i < share; ++i) sum += squares[row * kStreamWarps + i];
    scale[row] = in.weight != nullptr ? 1.0f / sqrtf(sum / static_cast<float>(in.x.cols) + in.eps) : 1.0f;
  }
}

// scale[row] of rows that the linear before left behind, rows w, w + 8, … for warp w: asked for first, added up when
// they have come.
template <int NT>
struct Squares {
  static constexpr int kAtOnce = 8;
  float part[NT][kAtOnce] = {};

  __device__ static int row(int t) { return static_cast<int>(threadIdx.x) / 32 + t * kStreamWarps; }
  __device__ static const float* of_row(const StreamArgs& args, int t) {
    return args.from.squares + int64_t{row(t)} * args.from.parts;
  }
  __device__ void ask(const StreamArgs& args) {
    if (args.from.weight == nullptr) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int t = 0; t < NT; ++t) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = lane + 32 * j;
        if (row(t) < args.rows && i < args.from.parts) part[t][j] = of_row(args, t)[i];
      }
    }
  }
  __device__ void make_scale(const StreamArgs& args, float* scale) const {
    if (args.from.weight == nullptr) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int t = 0; t < NT; ++t) {
      if (row(t) >= args.rows) return;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) sum += part[t][j];
      for (int i = lane + 32 * kAtOnce; i < args.from.parts; i += 32) sum += of_row(args, t)[i];
      sum = warp_sum(sum);
      if (lane == 0) scale[row(t)] = 1.0f / sqrtf(sum / static_cast<float>(args.from.x.cols) + args.from.eps);
    }
  }
};

// Where this lane finds its eight columns of a chunk of x, of rows lane / 4, lane / 4 + 8, …; zeros where there is no
// such row.
template <int NT, bool kShared>
struct XRows {
  static_assert(NT == 1 || !kShared, "blocks make x for few rows alone");
  const std::byte* at = nullptr;
  int64_t eight_rows = 0;  // bytes
  int count = 0;           // rows of this lane

  __device__ XRows(const StreamArgs& args, const uint16_t* shared, int lane) {
    const int row = lane / 4;
    if (row >= args.rows) return;
    count = (args.rows - row + 7) / 8;
    at = kShared ? reinterpret_cast<const std::byte*>(shared + row * shared_x_stride(args.chunks)) : args.x.row(row);
    at += lane % 4 * 16;
    eight_rows = args.x.stride * (2 * 8);
  }
  __device__ void load(int chunk, uint4 (&x)[NT]) const {
#pragma unroll
    for (int t = 0; t < NT; ++t) {
      x[t] = make_uint4(0, 0, 0, 0);
      if (t < count) x[t] = *reinterpret_cast<const uint4*>(at + t * eight_rows + int64_t{chunk} * (kStreamCols * 2));
    }
  }
};

}  // namespace ingot::cuda
