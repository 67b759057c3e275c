#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/check.h"

namespace ingot {
namespace {

// Turns of the spin before a thread sleeps: about 20 us here, longer than the gap between two
// operators of a step and short enough that an idle engine uses no CPU.
constexpr int kSpins = 4000;

// The part of a ticket that counts what is left.
constexpr uint64_t kCount = 0xffffffffu;

void pause_cpu() {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  asm volatile("pause");
#endif
}

// Cores granted by a cgroup v2 quota, rounded up; 0 where there is none.
int cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>((std::strtod(quota.c_str(), nullptr) + period - 1) / period);
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  if (const int quota = cgroup_cores(); quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1, "{} threads", threads);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t n, const std::function<void(int64_t, int)>& body) {
  if (workers_.empty() || n <= 1) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  CHECK(static_cast<uint64_t>(n) <= kCount, "{} parts of one loop", n);
  body_ = &body;
  n_ = n;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t loop = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  // Sequentially consistent, as is the sleepers' own pair: either a worker sees the loop or we see that it sleeps.
  ticket_.store(loop << 32 | static_cast<uint64_t>(n));
  if (sleepers_.load() > 0) {
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  while (take_one(0)) {
  }
  for (int spin = 0; done_.load(std::memory_order_acquire) != n; ++spin) {
    if (spin < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();
    }
  }
}

bool ThreadPool::take_one(int thread) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while ((ticket & kCount) != 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
    const int64_t left = static_cast<int64_t>(ticket & kCount);
    (*body_)(n_ - left, thread);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void ThreadPool::work(int thread) {
  while (!stop_) {
    int spin = 0;
    while (spin < kSpins && !stop_) {
      if (take_one(thread)) {
        spin = 0;
      } else {
        pause_cpu();
        ++spin;
      }
    }
    std::unique_lock lock(mutex_);
    ++sleepers_;
    wake_.wait(lock, [&] { return stop_ || (ticket_.load() & kCount) != 0; });
    --sleepers_;
  }
}

}  // namespace ingot
