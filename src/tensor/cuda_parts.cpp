#include "tensor/cuda_parts.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ingot::cuda {
namespace {

// Of the driver, from 12.5 on. The names with a version are what <cuda.h> calls them.
struct Driver {
  decltype(&cuDeviceGetDevResource) get_resource = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) create = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_stream = nullptr;
};

template <class F>
void look_up(const char* name, unsigned version, F& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr)
    throw Error("[cuda] this driver cannot cut a GPU into parts: it has no {}", name);
  function = reinterpret_cast<F>(found);
}

const Driver& driver() {
  static const Driver all = [] {
    Driver d;
    look_up("cuDeviceGetDevResource", 12040, d.get_resource);
    look_up("cuDevSmResourceSplitByCount", 12040, d.split);
    look_up("cuDevResourceGenerateDesc", 12040, d.describe);
    look_up("cuGreenCtxCreate", 12040, d.create);
    look_up("cuGreenCtxStreamCreate", 12050, d.create_stream);
    return d;
  }();
  return all;
}

void check(CUresult result, const char* what, const DevicePlace& place) {
  if (result == CUDA_SUCCESS) return;
  throw Error("[cuda] device {} cannot be cut into {} parts: {} returned {}", place.index, place.parts, what,
              static_cast<int>(result));
}

// As many multiprocessors for each as the whole gives, in the driver's units: eight on compute capability 9.0, so 32
// of 132 for each of four.
std::vector<DevicePart> make_parts(const DevicePlace& place) {
  const Driver& d = driver();
  CUdevResource all = {};
  check(d.get_resource(place.index, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource", place);
  auto n = static_cast<unsigned>(place.parts);
  const unsigned most = all.sm.smCount / n;
  std::vector<CUdevResource> shares(n);
  // A share that is asked for is rounded up to whole units: the largest of which there are enough.
  for (unsigned least = most; least > 0; --least) {
    n = static_cast<unsigned>(place.parts);
    const CUresult result = d.split(shares.data(), &n, &all, nullptr, 0, least);
    if (result == CUDA_SUCCESS && n == static_cast<unsigned>(place.parts)) break;
    if (least == 1)
      throw Error("[cuda] device {} has {} multiprocessors, too few for {} parts", place.index, all.sm.smCount,
                  place.parts);
  }
  std::vector<DevicePart> parts;
  for (CUdevResource& share : shares) {
    CUdevResourceDesc description = nullptr;
    CUgreenCtx context = nullptr;
    check(d.describe(&description, &share, 1), "cuDevResourceGenerateDesc", place);
    check(d.create(&context, description, place.index, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate", place);
    parts.push_back({.multiprocessors = static_cast<int>(share.sm.smCount), .context = context});
  }
  return parts;
}

}  // namespace

const DevicePart& device_part(const DevicePlace& place) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::vector<DevicePart>> made;
  const std::lock_guard lock(mutex);
  std::vector<DevicePart>& parts = made[{place.index, place.parts}];
  if (parts.empty()) parts = make_parts(place);
  return parts[static_cast<size_t>(place.part)];
}

StreamRef stream_of_part(const DevicePlace& place) {
  CUstream stream = nullptr;
  const auto context = static_cast<CUgreenCtx>(device_part(place).context);
  check(driver().create_stream(&stream, context, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate", place);
  return stream;
}

}  // namespace ingot::cuda
