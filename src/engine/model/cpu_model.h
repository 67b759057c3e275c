// A model's graph on the CPU: a thread of its own packs the weights and runs the steps (and is the first of the worker
// pool), so that the engine can prepare the next one meanwhile, and pages lie with the threads that read them. Where
// ranks share the model it is rank 0, which samples and reports.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/model/device_model.h"
#include "engine/model/ranks.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

class CpuModel final : public DeviceModel {
 public:
  // `pages[g]` pages of KV group g. The model's weights must outlive this. Throws what packing throws.
  CpuModel(const Model& model, const RunOptions& options, const std::vector<int>& pages);
  ~CpuModel() override;

  void launch(StepWork& work) override;
  void draw(StepWork& work) override;
  bool body_ended() override;
  std::string wait() override;

  const std::vector<int>& pages() const override { return pages_; }
  int64_t kv_bytes() const override { return kv_->bytes() + (ranks_ ? ranks_->kv_bytes() : 0); }
  const Program& program() const override { return runner_->program(); }
  void profile(bool on) override { runner_->profile(on); }
  const std::vector<double>& node_seconds() const override { return runner_->node_seconds(); }
  ExpertUse expert_use() const override { return runner_->expert_use(); }
  Runner* runner() override { return runner_.get(); }
  std::string lost() const override { return ranks_ ? ranks_->lost() : ""; }
  Ranks* ranks() { return ranks_.get(); }  // the others; null where there are none

 private:
  void start(const Model& model);
  void loop();
  void run(StepWork& work);
  void report_hidden(StepWork& work);
  void run_head(StepWork& work, size_t first, size_t count);
  bool await_draw();
  void sample(StepWork& work, size_t first, size_t count);

  const RunOptions options_;
  const std::vector<int> pages_;
  std::unique_ptr<Ranks> ranks_;  // null where the model is not shared
  // Both made by thread_, before the constructor returns.
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<KvStore> kv_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_, up to failed_.
  StepWork* work_ = nullptr;  // the step that runs
  enum class Draw : uint8_t { kAwaited, kMay, kNever };
  Draw draw_ = Draw::kMay;   // of the step that runs
  bool body_ended_ = false;  // it waits for draw()
  bool started_ = false;
  bool stop_ = false;
  std::string failed_;
  std::thread thread_;
};

}  // namespace ingot
