#include "cuda/kernel.cuh"
#include "graph/cuda/cuda_random.h"
#include "ladder/cuda_operands.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot::cuda {
namespace {

__global__ void random_words(uint32_t* to, int64_t n, uint32_t below, uint64_t key) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    uint64_t x = (static_cast<uint64_t>(i) + (key << 40) + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
    const uint32_t word = static_cast<uint32_t>(x >> 32);
    to[i] = below == 0 ? word : static_cast<uint32_t>(static_cast<uint64_t>(word) * below >> 32);
  }
}

// e4m3 of values in [-1, 1), four in a word; first their bits.
__global__ void words_to_codes(uint32_t* words, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    uint8_t codes[4];
    for (int b = 0; b < 4; ++b) {
      const float value = static_cast<float>(words[i] >> (8 * b) & 0xffu) * 0x1p-7f - 1;
      F8_E4M3::encode(&value, codes + b);
    }
    words[i] = codes[0] | codes[1] << 8 | codes[2] << 16 | static_cast<uint32_t>(codes[3]) << 24;
  }
}

}  // namespace

std::byte* DeviceOperands::bytes(int64_t count, int value) {
  kept_.emplace_back(count);
  fill_bytes(kept_.back().data(), value, count, stream_);
  return kept_.back().data();
}

Tensor DeviceOperands::tensor(int64_t rows, int64_t cols, DType dtype) {
  if (dtype == DType::kFp8) {
    DeviceCtx ctx;
    ctx.stream = stream_;
    ctx.overlap = false;
    const int64_t n = (rows * cols + 3) / 4;
    std::byte* codes = words(n, 0).data;
    launch(ctx, words_to_codes, {dim3(is_emulated() ? 1 : 1024), dim3(256)}, reinterpret_cast<uint32_t*>(codes), n);
    return ladder::fixed_tensor(codes, rows, cols, dtype);
  }
  Weight random;
  random.format = dtype == DType::kF32 ? Format::kF32 : Format::kBF16;
  random.rows = rows;
  random.cols = cols;
  random.random = {.key = ++keys_, .range = 1};
  kept_.emplace_back(rows * cols * dtype_bytes(dtype));
  fill_random(random, kept_.back().data(), stream_);
  return ladder::fixed_tensor(kept_.back().data(), rows, cols, dtype);
}

Tensor DeviceOperands::words(int64_t n, uint32_t below) {
  kept_.emplace_back(4 * n);
  DeviceCtx ctx;
  ctx.stream = stream_;
  ctx.overlap = false;
  launch(ctx, random_words, {dim3(is_emulated() ? 1 : 1024), dim3(256)},
         reinterpret_cast<uint32_t*>(kept_.back().data()), n, below, ++keys_);
  return ladder::fixed_tensor(kept_.back().data(), 1, n);
}

Tensor DeviceOperands::ints(int64_t rows, int64_t cols, const std::vector<int32_t>& values) {
  kept_.emplace_back(4 * rows * cols);
  copy_to_device(kept_.back().data(), values.data(), 4 * rows * cols, stream_);
  return ladder::fixed_tensor(kept_.back().data(), rows, cols, DType::kI32);
}

}  // namespace ingot::cuda
