// A model's graph as the engine runs it: a thread of its own runs the steps (and is the first of the worker pool), so
// that the engine can prepare the next one meanwhile.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/step_model.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

class GraphModel : public StepModel {
 public:
  // `pages[g]` pages of KV group g. `model` must outlive this.
  GraphModel(Model& model, const RunOptions& options, const std::vector<int>& pages);
  ~GraphModel() override;

  void launch(StepWork& work) override;
  std::string wait() override;

  // Called after the body of each step, with named outputs in place, by the thread that runs it.
  std::function<void(const Batch& batch, const Runner& runner)> on_body;

  // REQUIRES of all below: no step is running.
  Runner& runner() { return runner_; }
  int64_t kv_bytes() const { return kv_.bytes(); }

 private:
  void loop();
  void run(StepWork& work);
  void report_hidden(StepWork& work);
  void run_head(StepWork& work, size_t first, size_t count);
  void sample(StepWork& work, size_t first, size_t count);

  const RunOptions options_;
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
