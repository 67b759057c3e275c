// A fixed set of worker threads that run one parallel loop at a time (fork-join).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot {

// The cores this process may use: the affinity mask, lowered by the cgroup's CPU quota. At least 1.
int available_cores();

// Thread-compatible: one caller at a time, and a body never calls the pool again.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no worker at all. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i, thread) for every i in [0, n), each exactly once, and returns when all are done.
  // `thread` is in [0, threads()). Which thread takes which i is not fixed: a body's result must
  // depend on i alone. A body must not throw.
  void run(int64_t n, const std::function<void(int64_t i, int thread)>& body);

 private:
  void work(int thread);
  bool take_one(int thread);

  std::vector<std::thread> workers_;
  const std::function<void(int64_t, int)>* body_ = nullptr;  // of the loop now running
  int64_t n_ = 0;
  // The loop's number in the upper half, how many of its i nobody has taken yet in the lower. Taking one is a
  // compare-and-swap: it succeeds only while the loop is open, and run() cannot return before what was taken is done.
  // So a worker that the system holds back costs nothing unless it holds an i.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace ingot
