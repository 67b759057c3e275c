// A model's graph on the CPU: a thread of its own packs the weights and runs the steps (and is the first of the worker
// pool), so that the engine can prepare the next one meanwhile, and pages lie with the threads that read them. Where
// ranks share the model it is rank 0, which samples and reports, and with stages takes as many steps at once as there
// are.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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

  bool runs_ahead() const override { return steps_.size() > 1; }
  void launch(StepWork& work) override;
  void draw(StepWork& work) override;
  bool body_ended() override;
  std::string wait() override;

  const std::vector<int>& pages() const override { return pages_; }
  int64_t kv_bytes() const override;
  const Program& program() const override { return runner_->program(); }
  void profile(bool on) override { runner_->profile(on); }
  const std::vector<double>& node_seconds() const override { return runner_->node_seconds(); }
  ExpertUse expert_use() const override { return runner_->expert_use(); }
  Runner* runner() override { return runner_.get(); }
  std::string lost() const override;
  Ranks* ranks() { return ranks_.get(); }  // the others; null where there are none

 private:
  void start(const Model& model);
  void loop();
  void run(StepWork& work);
  std::string try_run(StepWork& work);
  void abort(const std::string& reason);
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

  enum class Draw : uint8_t { kAwaited, kMay, kNever };
  struct Step {
    StepWork* work = nullptr;
    Draw draw = Draw::kMay;
    bool body_ended = false;  // it waits for draw()
    bool ended = false;
    std::string failed;
  };
  // Guarded by mutex_, up to stop_. Steps launched_ - 1 … waited_ are in flight, each at its number modulo the size.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Step> steps_;
  size_t launched_ = 0, ran_ = 0, waited_ = 0;
  bool started_ = false;
  bool stop_ = false;

  Step& at(size_t number) { return steps_[number % steps_.size()]; }
  std::thread thread_;
};

}  // namespace ingot
