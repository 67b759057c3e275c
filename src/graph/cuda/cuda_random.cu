#include <algorithm>

#include "base/check.h"
#include "cuda/kernel.cuh"
#include "graph/cuda/cuda_random.h"
#include "weights/random_values.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

// A block makes pieces of rows, one after another.
__global__ void fill_kernel(std::byte* to, int64_t rows, int64_t cols, uint64_t key, float range, DType dtype) {
  let_next_begin();
  wait_for_inputs();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows * cols; i += stride) {
    store_value(to, i, dtype, random_value(key, i / cols, i % cols, cols, range));
  }
}

}  // namespace

void fill_random(const Weight& weight, std::byte* to, StreamRef stream) {
  const bool f32 = weight.format == Format::kF32;
  CHECK(f32 || weight.format == Format::kBF16, "'{}' is random in {}", weight.name, format_name(weight.format));
  DeviceCtx ctx;
  ctx.stream = stream;
  ctx.overlap = false;
  const int64_t blocks = std::min<int64_t>(ceil_div(weight.rows * weight.cols, kThreads), 1 << 14);
  launch(ctx, fill_kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)}, to, weight.rows, weight.cols,
         weight.random.key, weight.random.range, f32 ? DType::kF32 : DType::kBF16);
}

}  // namespace ingot::cuda
