// What `ingot bench` measures on a CUDA device. As behind engine/model/cuda.h, one of three is linked: the backend
// (cuda_device.cpp), the same with the host playing the device (tests), or cuda_none.cpp in a build without CUDA.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ingot {

// What a device can do at most, for percentages; bench/machine.h measures the CPU.
struct DeviceCeilings {
  double read_gbs = 0;
  double copy_gbs = 0;     // bytes read and bytes written together
  double bf16_gflops = 0;  // of a large product; 0 where no library for products is there
};
// Measured on CUDA device `index`, with what memory is free. Throws Error where there is no such device.
DeviceCeilings measure_device(int index);

// An operator alone, on a device.
struct DeviceOpTime {
  std::string op;     // "linear", "attention" …: what a name selects
  std::string shape;  // "bf16 4096x4096, 16 rows"
  double bytes = 0;   // that a run must read and write
  double flops = 0;
  double seconds = 0;  // 0 on the emulated device
};
struct DeviceOpsListener {
  std::function<void(const std::string& device, const DeviceCeilings&)> begin;
  std::function<void(const DeviceOpTime&)> each;  // when it is there; may throw to stop
};
// Times operators of an 8B model in BF16; `names` select some. Throws Error for a name that none has, where there is no
// such device, and where its memory does not suffice.
void bench_device_ops(int index, const std::vector<std::string>& names, const DeviceOpsListener& listener);

}  // namespace ingot
