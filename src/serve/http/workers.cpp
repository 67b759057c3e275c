#include "serve/http/workers.h"

#include <utility>
#include <vector>

namespace ingot {

Workers::Workers(int threads, size_t max_jobs) : max_jobs_(max_jobs) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();  // those that began: a thread that nobody joins ends the program
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  std::deque<std::function<void()>> dropped;  // goes outside the lock: what jobs hold may post
  std::unique_lock lock(mutex_);
  dropped.swap(jobs_);
  while (!urgent_.empty()) run_one(lock, urgent_);
  closed_ = true;
  lock.unlock();
}

bool Workers::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || jobs_.size() >= max_jobs_) return false;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

bool Workers::post_first(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    urgent_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

size_t Workers::waiting() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size() + urgent_.size();
}

void Workers::run_one(std::unique_lock<std::mutex>& lock, std::deque<std::function<void()>>& queue) {
  std::function<void()> job = std::move(queue.front());
  queue.pop_front();
  lock.unlock();
  try {
    job();
  } catch (...) {
    ++failed_;
  }
  job = nullptr;  // what it holds may take the lock when it goes
  lock.lock();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !urgent_.empty() || !jobs_.empty(); });
    if (stop_) return;
    run_one(lock, urgent_.empty() ? jobs_ : urgent_);
  }
}

struct Strand::State {
  explicit State(Workers& w) : workers(w) {}
  Workers& workers;
  std::mutex mutex;
  std::vector<std::function<void()>> jobs;
  bool scheduled = false;  // a worker has it, or will
};

Strand::Strand(Workers& workers) : state_(std::make_shared<State>(workers)) {}

void Strand::post(std::function<void()> job) {
  std::function<void()> first;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->scheduled) first = [state = state_] { drain(state); };
    state_->jobs.push_back(std::move(job));
    if (std::exchange(state_->scheduled, true)) return;
  }
  const auto drop = [this] {
    std::vector<std::function<void()>> dropped;  // outside the lock: what they hold may post when it goes
    const std::lock_guard lock(state_->mutex);
    state_->scheduled = false;
    dropped.swap(state_->jobs);
  };
  try {
    if (!state_->workers.post_first(std::move(first))) drop();
  } catch (...) {
    drop();
    throw;
  }
}

void Strand::drain(const std::shared_ptr<State>& state) {
  // What came up to now, and no more, so that a busy request shares the workers with the others.
  for (bool again = true; again;) {
    run(*state);
    {
      const std::lock_guard lock(state->mutex);
      if (state->jobs.empty()) {
        state->scheduled = false;
        return;
      }
    }
    again = false;
    try {
      again = !state->workers.post_first([state] { drain(state); });
    } catch (...) {
      again = true;  // no memory to wait in the line
    }
  }
}

void Strand::run(State& state) {
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(state.mutex);
    jobs.swap(state.jobs);
  }
  for (std::function<void()>& job : jobs) {
    try {
      job();
    } catch (...) {
      ++state.workers.failed_;
    }
    job = nullptr;
  }
}

}  // namespace ingot
