// Operands of a ladder in a CUDA device's memory.
#pragma once

#include <vector>

#include "ladder/step.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

class DeviceOperands : public ladder::Operands {
 public:
  explicit DeviceOperands(StreamRef stream) : stream_(stream) {}

  ladder::Target target() const override { return is_emulated() ? ladder::Target::kEmulated : ladder::Target::kCuda; }
  std::byte* bytes(int64_t count, int value) override;
  Tensor tensor(int64_t rows, int64_t cols, DType dtype) override;
  Tensor words(int64_t n, uint32_t below) override;
  Tensor ints(int64_t rows, int64_t cols, const std::vector<int32_t>& values) override;

 private:
  const StreamRef stream_;
  std::vector<DeviceMemory> kept_;
  uint64_t keys_ = 0;
};

}  // namespace ingot::cuda
