// What launching needs once.
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "cuda/blocks.cuh"

#ifdef INGOT_CUDA_EMULATED
namespace ingot::cuda {
void require_kernels() {}
}  // namespace ingot::cuda
#else
namespace ingot::cuda {
namespace {
__global__ void nothing() {}
}  // namespace

void require_kernels() {
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess) return;
  (void)cudaGetLastError();
  const DeviceFacts facts = device_facts();
  throw Error("[cuda] {} has compute capability {}.{}, and this program was built without kernels for it", facts.name,
              facts.major, facts.minor);
}

void check_launch(cudaError_t error, const char* what) {
  CHECK(error == cudaSuccess, "{}: {}", what, cudaGetErrorString(error));
}

void allow_shared(const void* kernel, int64_t bytes) {
  static std::mutex mutex;
  static std::unordered_map<const void*, int64_t> allowed;
  const std::lock_guard lock(mutex);
  int64_t& most = allowed[kernel];
  if (bytes <= most) return;
  const int64_t limit = device_facts().shared_bytes;
  if (bytes > limit)
    throw Error("[cuda] a kernel needs {} KiB of shared memory for a block, and this device has {}", bytes >> 10,
                limit >> 10);
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
               "shared memory of a kernel");
  most = bytes;
}

void allow_large_clusters(const void* kernel) {
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "large clusters");
}

}  // namespace ingot::cuda
#endif
