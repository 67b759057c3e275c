#include "engine/mask/mask_pool.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

// How long the engine sleeps before it looks again whether the model has come to its end.
constexpr std::chrono::microseconds kLook{100};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run_task(MaskTask& task) {
  const double begin = thread_seconds();
  task.run();
  task.finish(thread_seconds() - begin);
}

bool later(const std::shared_ptr<MaskTask>& a, const std::shared_ptr<MaskTask>& b) { return a->rank() > b->rank(); }

}  // namespace

// A GPU's steps leave the cores free; a model on the CPU wants all of them, and 16 masks of a step are 1 ms of one.
int MaskPool::threads_of(int cores, bool gpu) {
  return gpu ? std::clamp(cores / 2, 1, 8) : std::clamp(cores / 8, 1, 4);
}

MaskPool::MaskPool(int threads, int tasks) {
  CHECK(threads >= 1, "{} threads", threads);
  queue_.reserve(2 * static_cast<size_t>(std::max(tasks, 8)));
  drops_.reserve(queue_.capacity());
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

MaskPool::~MaskPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MaskPool::post(const std::shared_ptr<MaskTask>& task) {
  try {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
    std::ranges::push_heap(queue_, later);
  } catch (const std::bad_alloc&) {
    return run_task(*task);
  }
  wake_.notify_one();
}

void MaskPool::wait() {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, kLook, [this] { return ended_ != seen_; });
  seen_ = ended_;
}

void MaskPool::drop(std::shared_ptr<const void> last) {
  try {
    const std::lock_guard lock(mutex_);
    drops_.push_back(std::move(last));
  } catch (const std::bad_alloc&) {
    return;
  }
  wake_.notify_one();
}

void MaskPool::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty() || !drops_.empty(); });
    if (stop_) return;
    if (queue_.empty()) {
      std::shared_ptr<const void> last = std::move(drops_.back());
      drops_.pop_back();
      lock.unlock();
      last.reset();
      lock.lock();
      continue;
    }
    std::ranges::pop_heap(queue_, later);
    std::shared_ptr<MaskTask> task = std::move(queue_.back());
    queue_.pop_back();
    lock.unlock();
    run_task(*task);
    task.reset();  // the last holder of a seq that has gone frees it here
    lock.lock();
    ++ended_;
    done_.notify_one();
  }
}

}  // namespace ingot
