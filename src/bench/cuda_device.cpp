#include <fmt/format.h>

#include <memory>

#include "bench/cuda_ceilings.h"
#include "bench/cuda_op_times.h"
#include "bench/device.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

// What measuring needs of a device; it is in use from then on.
struct Device {
  explicit Device(int index) {
    cuda::use_device(index);
    cuda::require_kernels();
    std::string why;  // of no interest: own products serve as well
    if (!cuda::is_emulated()) blas = cuda::Blas::load(&why);
    stream = std::make_unique<cuda::Stream>();
  }
  DeviceCeilings ceilings() const { return cuda::measure_ceilings(blas.get(), stream->ref()); }

  std::unique_ptr<cuda::Blas> blas;
  std::unique_ptr<cuda::Stream> stream;
};

}  // namespace

DeviceCeilings measure_device(int index) {
  const Device device(index);
  const DeviceCeilings most = device.ceilings();
  if (device.blas) device.blas->save();
  return most;
}

void bench_device_ops(int index, const std::vector<std::string>& names, const DeviceOpsListener& listener) {
  const Device device(index);
  listener.begin(fmt::format("cuda:{} {}", index, cuda::device_facts().name), device.ceilings());
  cuda::time_ops(names, device.blas.get(), listener.each);
  if (device.blas) device.blas->save();
}

}  // namespace ingot
