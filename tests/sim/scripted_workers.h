// Workers of masks as a script has them: a task is run when the script says so, by the thread that posts or waits.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/mask/mask_task.h"
#include "sim/simulation.h"

namespace ingot::sim {

class ScriptedWorkers : public MaskWorkers {
 public:
  // Whether a task is run as soon as it is posted; else it waits for wait().
  std::function<bool()> at_once = [] { return false; };
  // Which of the tasks that wait is run by wait(), of so many; beyond them: none.
  std::function<size_t(size_t n)> which = [](size_t) { return size_t{0}; };
  std::function<double()> seconds = [] { return 0.0; };  // that a task takes
  int64_t posted = 0, waits = 0;

  void post(const std::shared_ptr<MaskTask>& task) override {
    ++posted;
    if (at_once()) return run(*task);
    pause_allocation_failure();
    tasks_.push_back(task);
    resume_allocation_failure();
  }
  void wait() override {
    ++waits;
    const size_t i = which(tasks_.size());
    if (i >= tasks_.size()) return;
    const std::shared_ptr<MaskTask> task = tasks_[i];
    tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(i));
    run(*task);
  }
  void drop(std::shared_ptr<const void> last) override {
    if (!keeps_dropped) return;
    pause_allocation_failure();
    dropped.push_back(std::move(last));
    resume_allocation_failure();
  }
  size_t waiting() const { return tasks_.size(); }
  bool keeps_dropped = false;
  std::vector<std::shared_ptr<const void>> dropped;

 private:
  void run(MaskTask& task) const {
    task.run();
    task.finish(seconds());
  }

  std::vector<std::shared_ptr<MaskTask>> tasks_;
};

}  // namespace ingot::sim
