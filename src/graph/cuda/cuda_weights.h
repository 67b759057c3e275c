// A graph's weights in the memory of a device, each once, in their published formats. They are read by several threads
// straight from where they lie (a mapped file) into pinned memory and copied while the next are read; random ones that
// the host never made are made on the device.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

// Bytes of the device that the graph's weights need.
int64_t device_weight_bytes(Graph& graph);

// Where a weight, or its scales, lies, and whether its rows are heads in another order there (Weight::head_rows).
struct WeightPlace {
  const std::byte* data = nullptr;
  int64_t head_rows = 0;
};

class DeviceWeights {
 public:
  // Points every weight of every node to the device. `device` is the one in use. Throws Error where a file was cut
  // short while it was read.
  DeviceWeights(Graph& graph, int device, int threads);
  // Points them back to the host.
  ~DeviceWeights();
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  const std::byte* data() const { return memory_.data(); }
  int64_t bytes() const { return memory_.bytes(); }

 private:
  Graph& graph_;
  DeviceMemory memory_;
  std::map<const std::byte*, WeightPlace> host_;  // by place on the device
};

}  // namespace ingot::cuda
