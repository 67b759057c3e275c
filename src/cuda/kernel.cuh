// The one header of every .cu file: launching, warps and blocks, matrix instructions, copies into shared memory.
// Compiled by nvcc it is CUDA; compiled as C++ with INGOT_CUDA_EMULATED the host plays the device (emulator.h), lane by
// lane, so that kernels are tested where there is no GPU. Kernels therefore use no CUDA C++ beyond this header:
//   launch(ctx, kernel, {grid, threads, shared bytes}, args…)   in place of <<<>>>
//   shared_memory<T>()                                           in place of extern __shared__
//   __shared__ T name[n];                                        only plain types, at the top of a kernel
// All else (__global__, __device__, threadIdx, __syncthreads, __shfl_xor_sync, atomicAdd …) is written as usual.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device_ctx.h"
#include "tensor/matrix.h"

#ifdef INGOT_CUDA_EMULATED
#include "emulator/emulator.h"
#else
#include "cuda/device.cuh"
#endif

namespace ingot::cuda {

#ifdef INGOT_CUDA_EMULATED
template <class... P, class... A>
void launch(const DeviceCtx& ctx, void (*kernel)(P...), const Launch& shape, A&&... args) {
  emulated::launch(ctx.stream, kernel, shape, std::forward<A>(args)...);
}
static_assert(emulated::kNotHanded == kNothing);
#endif

// Division that rounds up.
__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where the 16-byte piece `piece` of slot `slot`'s row lies in the KV cache, where rows are multiples of 128 bytes:
// eight rows one after another have the same piece in eight different groups of banks, so a page copied as it is into
// shared memory is read without conflicts by ldmatrix.
__host__ __device__ constexpr int kv_piece(int slot, int piece) { return piece ^ (slot & 7); }

// Sums and maxima over the warp; every lane gets the result. Fixed order: the same for every launch.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

// Over the block of at most 1024 threads, a multiple of 32; every thread gets the result. `room` is 32 floats of shared
// memory that nothing else uses until the next __syncthreads().
__device__ inline float block_sum(float x, float* room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  x = warp_sum(x);
  __syncthreads();
  if (lane == 0) room[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? room[lane] : 0.0f);
}
// What a norm divides by, inverted: `sum` are the squares of n values.
__device__ inline float inverse_root(float sum, int n, float eps) {
  return 1.0f / sqrtf(sum / static_cast<float>(n) + eps);
}
__device__ inline float block_max(float x, float* room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  x = warp_max(x);
  __syncthreads();
  if (lane == 0) room[warp] = x;
  __syncthreads();
  return warp_max(lane < warps ? room[lane] : -INFINITY);
}

// One element of an activation, whatever its type.
__device__ inline float load_value(const std::byte* row, int64_t i, DType dtype) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(row)[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(row)[i];
  return dtype == DType::kBF16 ? bf16_value(bits) : f16_value(bits);
}
__device__ inline void store_value(std::byte* row, int64_t i, DType dtype, float x) {
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(row)[i] = x;
  } else {
    reinterpret_cast<uint16_t*>(row)[i] = dtype == DType::kBF16 ? bf16_bits(x) : f16_bits(x);
  }
}

// A matrix of activations inside a kernel: pass it by value.
struct View {
  std::byte* data = nullptr;
  int64_t stride = 0;  // elements
  int cols = 0;
  DType dtype = DType::kF32;

  View() = default;
  explicit View(const Matrix& m) : data(m.data), stride(m.stride), cols(static_cast<int>(m.cols)), dtype(m.dtype) {}
  explicit View(const Tensor& t) : View(Matrix(t)) {}
  __device__ std::byte* row(int64_t r) const { return data + r * stride * (dtype == DType::kF32 ? 4 : 2); }
  __device__ float get(int64_t r, int64_t c) const { return load_value(row(r), c, dtype); }
  __device__ void set(int64_t r, int64_t c, float x) const { store_value(row(r), c, dtype, x); }
};

}  // namespace ingot::cuda
