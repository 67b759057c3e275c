// A fixed set of worker threads that run one parallel-for at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot {

// The cores this process may use: the affinity mask, lowered by the cgroup's CPU quota. At least 1.
int available_cores();

// Whether thread i of a pool stays on core i of the affinity mask.
enum class Pinning : uint8_t {
  kAuto,  // INGOT_PIN=on or off; without it, where the cores lie on more than one memory node
  kOn,
  kOff,
};

// What pinning is decided by. Never where the pool has fewer or more threads than the mask has cores (two processes
// would choose the same ones and leave others idle), or where the control group grants fewer.
struct PinningFacts {
  int threads = 1;
  int mask_cores = 1;
  int available_cores = 1;
  int nodes = 1;
};
bool pins(Pinning pinning, const PinningFacts& facts);

// One loop of a parallel-for: call(object, i, thread) for every i in [0, n). Refers to a body that outlives it.
struct Loop {
  int64_t n = 0;
  const void* object = nullptr;
  void (*call)(const void* object, int64_t i, int thread) = nullptr;
};

template <class F>
Loop loop(int64_t n, const F& body) {
  return {n, &body, [](const void* object, int64_t i, int thread) { (*static_cast<const F*>(object))(i, thread); }};
}

// Thread-compatible: one caller at a time, and a body never calls the pool again.
//
// Of a loop of n, thread t of T has the indices [n·t/T, n·(t+1)/T) for its own, in order; when they are gone it takes
// from the others. So equal loops over the same data find it in the same caches and, where memory has several nodes,
// in the node of the thread that wrote it first; unequal work is balanced; and a worker that the system holds back
// costs nothing unless it holds an index.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no worker at all. REQUIRES: threads >= 1.
  explicit ThreadPool(int threads, Pinning pinning = Pinning::kAuto);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  bool pinned() const { return !cores_.empty(); }
  // Where workers are pinned, so is the thread that calls this: it is the one that runs the loops from now on, and
  // starts no others, which would be held to its core.
  void pin_caller() const;
  // Parallel-fors that workers were asked to take part in, so far.
  int64_t regions() const { return regions_; }

  // The indices of a loop of n that thread t of `threads` has for its own.
  struct Range {
    int64_t begin, end;
  };
  static Range share(int64_t n, int64_t t, int64_t threads) { return {n * t / threads, n * (t + 1) / threads}; }

  // Calls body(i, thread) for every i in [0, n), each exactly once, and returns when all are done.
  // `thread` is in [0, threads()). Which thread takes which i is not fixed: a body's result must
  // depend on i alone. A body must not throw.
  template <class F>
  void run(int64_t n, const F& body) {
    const Loop one = loop(n, body);
    run_loops(&one, 1);
  }

  // Several loops in one parallel-for: the next begins when the one before is done, without a join in between. The
  // thread that finishes a loop last runs a loop of one by itself.
  template <class... Loops>
  void run_phases(const Loops&... loops) {
    const Loop all[] = {loops...};
    run_loops(all, static_cast<int>(sizeof...(loops)));
  }

 private:
  // What is left of a thread's own indices, in the lower half, under the loop's number. Taking one is a
  // compare-and-swap: it succeeds only while the loop is open, and a loop is not closed before what was taken is done.
  struct alignas(64) Share {
    std::atomic<uint64_t> ticket{0};
  };

  void run_loops(const Loop* loops, int count);
  void open(const Loop& loop);
  bool take_part(int thread);
  void advance(int thread);
  void work(int thread);

  std::vector<std::thread> workers_;
  std::unique_ptr<Share[]> shares_;
  std::vector<int> cores_;  // of the threads; empty: not pinned
  int64_t spin_ns_ = 0;
  int64_t regions_ = 0;

  // Of the parallel-for: written by whoever opens a loop, read by those that hold an index of it.
  const Loop* loops_ = nullptr;
  const Loop* end_ = nullptr;
  Loop now_;
  alignas(64) std::atomic<uint32_t> number_{0};  // of the loop that was opened last
  alignas(64) std::atomic<int64_t> done_{0};     // indices of it
  alignas(64) std::atomic<bool> finished_{true};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace ingot
