// A model's graph on the CPU: a thread of its own runs the steps (and is the first of the worker pool), so
// that the engine can prepare the next one meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/device_model.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

class GraphModel final : public DeviceModel {
 public:
  // `pages[g]` pages of KV group g. `model` must outlive this.
  GraphModel(Model& model, const RunOptions& options, const std::vector<int>& pages);
  ~GraphModel() override;

  void launch(StepWork& work) override;
  std::string wait() override;

  const std::vector<int>& pages() const override { return pages_; }
  int64_t kv_bytes() const override { return kv_.bytes(); }
  void profile(bool on) override { runner_.profile(on); }
  const std::vector<double>& node_seconds() const override { return runner_.node_seconds(); }
  Runner* runner() override { return &runner_; }

 private:
  void loop();
  void run(StepWork& work);
  void report_hidden(StepWork& work);
  void run_head(StepWork& work, size_t first, size_t count);
  void sample(StepWork& work, size_t first, size_t count);

  const RunOptions options_;
  const std::vector<int> pages_;
  KvStore kv_;
  Runner runner_;
  std::mutex mutex_;
  std::condition_variable wake_;
  StepWork* work_ = nullptr;  // guarded by mutex_: the step that runs
  bool stop_ = false;
  std::string failed_;
  std::thread thread_;
};

}  // namespace ingot
