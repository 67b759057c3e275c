// A model's graph on a CUDA device as the engine runs it. A step is given to the device as a whole; nothing waits for
// the host but the answer.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "engine/cuda.h"
#include "graph/cuda_runner.h"

namespace ingot {

class CudaModel final : public DeviceModel {
 public:
  CudaModel(Model& model, const CudaModelOptions& options);

  void launch(StepWork& work) override;
  std::string wait() override;

  const std::vector<int>& pages() const override { return runner_.pages(); }
  int64_t kv_bytes() const override { return runner_.kv_bytes(); }
  void profile(bool on) override { runner_.profile(on); }
  const std::vector<double>& node_seconds() const override { return runner_.node_seconds(); }
  double profiled_seconds() const override { return runner_.profiled_seconds(); }
  DeviceUse use() const override;
  DeviceCeilings ceilings() override;

 private:
  void begin(StepWork& work);
  void finish(StepWork& work);
  void set_logit_rows(StepWork& work, size_t first);
  void report_hidden(StepWork& work);
  void report_logits(StepWork& work, size_t first);
  void use_device();

  const CudaModelOptions options_;
  cuda::DeviceRunner runner_;
  cuda::Event done_;
  std::thread::id thread_;  // that has named the device
  StepWork* work_ = nullptr;
  std::string failed_;
  std::vector<float> rows_;
};

}  // namespace ingot
