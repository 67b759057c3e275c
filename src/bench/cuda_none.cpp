// Measuring a device in a build without CUDA.
#include "base/error.h"
#include "bench/device.h"

namespace ingot {

DeviceCeilings measure_device(int) { throw Error("[device] this build has no CUDA (see INGOT_CUDA in the README)"); }

void bench_device_ops(int index, const std::vector<std::string>&, const DeviceOpsListener&) { measure_device(index); }

}  // namespace ingot
