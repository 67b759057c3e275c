// A model's graph on a CUDA device as the engine runs it. A step is given to the device as a whole, the next behind it
// before it has ended; nothing waits for the host but the answer. Where anything throws, all steps in flight fail.
// Where ranks share the model it is rank 0, which samples and reports; then one step is in flight.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "engine/model/cuda.h"
#include "engine/model/cuda_ranks.h"
#include "graph/cuda/cuda_runner.h"

namespace ingot {

class CudaModel final : public DeviceModel {
 public:
  CudaModel(const Model& model, const DeviceRunOptions& options);

  // Profiles and named outputs are of one step.
  bool runs_ahead() const override {
    return options_.device.ahead && !ranks_ && !on_body && runner_.node_seconds().empty();
  }
  void launch(StepWork& work) override;
  void draw(StepWork& work) override;
  bool body_ended() override;
  std::string wait() override;

  const std::vector<int>& pages() const override { return runner_.pages(); }
  int64_t kv_bytes() const override { return runner_.kv_bytes() + (ranks_ ? ranks_->bytes().kv : 0); }
  const Program& program() const override { return runner_.program(); }
  void profile(bool on) override;
  const std::vector<double>& node_seconds() const override { return runner_.node_seconds(); }
  double profiled_seconds() const override { return runner_.profiled_seconds(); }
  ExpertUse expert_use() const override { return runner_.expert_use(); }
  DeviceUse use() const override;
  int64_t free_bytes() const override { return cuda::free_device_bytes(options_.device.place(0).index); }
  std::string lost() const override { return ranks_ ? ranks_->lost() : ""; }
  CudaRanks* ranks() { return ranks_.get(); }  // the others; null where there are none

 private:
  struct Running {
    StepWork* work = nullptr;  // null: none
    cuda::Event done;          // of one that is not drawn: its body
    bool failed = false;
    bool drawn = true;
  };
  Running& newest() { return running_[running_[1 - oldest_].work ? 1 - oldest_ : oldest_]; }
  void fail(const char* why = "the step threw");
  void begin(StepWork& work, cuda::Event& done);
  void finish(StepWork& work);
  void set_logit_rows(StepWork& work, size_t first);
  void report_hidden(StepWork& work);
  void report_logits(StepWork& work, size_t first);
  void use_device();
  void record();

  const DeviceRunOptions options_;
  std::unique_ptr<CudaRanks> ranks_;  // null where the model is not shared
  cuda::DeviceRunner runner_;
  std::thread::id thread_;  // that has named the device
  Running running_[2];
  size_t oldest_ = 0;
  std::vector<float> rows_;
  int graphs_ = 0;  // of the start, and their seconds
  double graph_seconds_ = 0;
};

}  // namespace ingot
