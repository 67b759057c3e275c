// Threads for the work that the io thread and the engine's thread must not do: reading JSON, templates, tokens to text.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot {

// Any thread may call all of it. Idle threads sleep.
class Workers {
 public:
  // `max_jobs`: how many of post() may wait.
  explicit Workers(int threads = 2, size_t max_jobs = 1024);
  ~Workers();  // stop()
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `job` soon. False: too many wait already, and the job was not taken. What a job throws is swallowed and
  // counted: a job that has somebody to tell catches for itself.
  [[nodiscard]] bool post(std::function<void()> job);
  // Ends the threads: new jobs are dropped, those of strands that wait are run by the caller. What jobs use may go
  // afterwards. One thread calls it; a second call does nothing.
  void stop();
  int64_t failed_jobs() const { return failed_; }
  // Jobs that wait now.
  size_t waiting() const;

 private:
  friend class Strand;
  // False: the workers have ended, and the job was not taken.
  bool post_first(std::function<void()> job);
  void work();
  void run_one(std::unique_lock<std::mutex>& lock, std::deque<std::function<void()>>& queue);

  const size_t max_jobs_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> urgent_;  // of strands: requests that are in flight go before new ones
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;    // the threads end
  bool closed_ = false;  // nothing is taken any more
  std::atomic<int64_t> failed_{0};
  std::vector<std::thread> threads_;
};

// Jobs of one request: they run in the order they were posted, never two at once, on the workers. Never refuses: what
// waits is bounded by what the request may make. Jobs that wait keep the strand's state alive; the workers must outlive
// both.
class Strand {
 public:
  explicit Strand(Workers& workers);
  // Does not wait for anything but a short lock: the engine's thread may call it.
  void post(std::function<void()> job);

 private:
  struct State;
  static void drain(const std::shared_ptr<State>& state);
  static void run(State& state);
  std::shared_ptr<State> state_;
};

}  // namespace ingot
