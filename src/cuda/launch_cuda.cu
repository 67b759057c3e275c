// What launching needs once.
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "cuda/blocks.cuh"
#include "cuda/tensor_copy.cuh"
#include "tensor/device_place.h"

#ifdef INGOT_CUDA_EMULATED
namespace ingot::cuda {
void require_kernels() {}
TensorMap make_tensor_map(const std::byte* data, int64_t rows, int64_t cols, int64_t stride, int box_rows,
                          bool permuted) {
  CHECK(reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % 16 == 0 && rows > 0 && cols > 0 && box_rows <= 256,
        "a map of {} x {} values, {} bytes a row", rows, cols, stride);
  return {data, rows, cols, stride, box_rows, permuted};
}
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
  static std::map<std::pair<int, const void*>, int64_t> allowed;
  const std::lock_guard lock(mutex);
  int64_t& most = allowed[{device_in_use(), kernel}];
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

TensorMap make_tensor_map(const std::byte* data, int64_t rows, int64_t cols, int64_t stride, int box_rows,
                          bool permuted) {
  static const auto encode = [] {  // the driver's, found at run time: no program needs it to start
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = {};
    check_launch(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
                 "the maker of tensor maps");
    CHECK(result == cudaDriverEntryPointSuccess, "the driver makes no tensor maps");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  TensorMap to;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)}, steps[] = {1, 1};
  const CUresult error =
      encode(&to.map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<std::byte*>(data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, permuted ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(error == CUDA_SUCCESS, "a map of {} x {} values, {} bytes a row: error {}", rows, cols, stride,
        static_cast<int>(error));
  return to;
}

}  // namespace ingot::cuda
#endif
