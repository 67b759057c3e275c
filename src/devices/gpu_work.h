// What `ingot devices` and `ingot bench matmul` do on GPUs. As behind bench/device.h, one of three is linked: the
// backend (cuda_work.cpp), the same with the host playing the device (tests), or cuda_none.cpp in a build without CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/equal_product.h"
#include "devices/matmul_part.h"
#include "tensor/device_place.h"

namespace ingot {

// Of CUDA's devices, in its order, as Gpu::bus_id; empty where there is no CUDA or no device. Makes no context.
std::vector<std::string> cuda_bus_ids();

// What was seen of the way from one GPU to another.
struct GpuPair {
  int from = 0, to = 0;
  bool claimed = false;         // the driver says that one reaches the other's memory
  bool wrote = false;           // what a kernel of `from` wrote to the memory of `to` was read there
  bool read = false;            // and the other way: `from` read what `to` has
  bool late = false;            // data did not come in time: nothing more is tried on any GPU
  double direct_gbs = 0;        // large copies; 0: not claimed, or wrong
  double direct_us = 0;         // of a copy of 16 bytes
  double through_host_gbs = 0;  // by pinned memory, in pieces
};
struct GpuTest {
  std::vector<double> to_device_gbs, to_host_gbs;  // [device] pinned memory
  std::vector<GpuPair> pairs;                      // every ordered pair
};
// One way. The same device twice: what it does with itself, for tests where there is one. Throws Error where one cannot
// be used.
GpuPair test_gpu_pair(int from, int to, int64_t bytes);
// REQUIRES: CUDA devices, each once. Throws Error where one cannot be used. `tell` hears of each pair.
GpuTest test_gpus(const std::vector<int>& devices, int64_t bytes, const std::function<void(const GpuPair&)>& tell);

// Collectives of GPUs, or parts of one, as recorded steps have them: kernels that meet.
struct GpuCommTime {
  std::string op;
  int64_t bytes = 0;  // of the whole, in f32
  double us = 0;      // of one among many in a recorded graph; median of five
  double bus_gbs = 0;
};
// `tell` hears of each op and size, 1 KiB and four times as much each time, and may throw. Throws Error where a device
// cannot be used or what came is wrong. REQUIRES: at least two places.
void time_gpu_comm(const std::vector<cuda::DevicePlace>& places, int64_t least_bytes, int64_t most_bytes,
                   const std::function<void(const GpuCommTime&)>& tell);

// out [m, n] = x [m, k] · Wᵀ of fixed random values of bf16, on one GPU. Throws Error where it cannot be used.
std::unique_ptr<EqualProduct> make_gpu_product(int device, const MatmulSize& size);

}  // namespace ingot
