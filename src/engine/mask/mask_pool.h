// Threads that make masks: few, so that they never take the machine from the model, and made at the start.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/mask/mask_task.h"

namespace ingot {

class MaskPool final : public MaskWorkers {
 public:
  // REQUIRES: threads >= 1. `tasks`: so many are posted at once at most, but for those whose seqs have gone.
  MaskPool(int threads, int tasks);
  // Tasks that nobody has begun are dropped.
  ~MaskPool() override;

  // Any thread; where there is no memory to keep the task it is run at once.
  void post(const std::shared_ptr<MaskTask>& task) override;
  void wait() override;
  // Any thread; where there is no memory to keep it, it goes at once.
  void drop(std::shared_ptr<const void> last) override;

  // Of a machine with so many cores, beside a model that runs on them or on a GPU.
  static int threads_of(int cores, bool gpu);

 private:
  void loop();

  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_, done_;
  std::vector<std::shared_ptr<MaskTask>> queue_;    // a heap: the lowest rank first
  std::vector<std::shared_ptr<const void>> drops_;  // while there are no tasks
  int64_t ended_ = 0, seen_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ingot
