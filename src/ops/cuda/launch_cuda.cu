// What launching needs once.
#include <mutex>
#include <unordered_map>

#include "ops/cuda/kernel.cuh"

#ifndef INGOT_CUDA_EMULATED
namespace ingot::cuda {

void check_launch(cudaError_t error, const char* what) {
  CHECK(error == cudaSuccess, "{}: {}", what, cudaGetErrorString(error));
}

void allow_shared(const void* kernel, int64_t bytes) {
  static std::mutex mutex;
  static std::unordered_map<const void*, int64_t> allowed;
  const std::lock_guard lock(mutex);
  int64_t& most = allowed[kernel];
  if (bytes <= most) return;
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
               "shared memory of a kernel");
  most = bytes;
}

}  // namespace ingot::cuda
#endif
