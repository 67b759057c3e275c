#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/cgroup.h"
#include "base/check.h"
#include "base/numa.h"
#include "base/spin.h"

namespace ingot {
namespace {

// How long a thread spins before it sleeps: longer than what lies between two steps (0.1 ms of sampling and
// bookkeeping with a vocabulary of 49,152), short enough that an idle engine uses no CPU.
constexpr int64_t kSpinNs = 200'000;

Pinning by_environment(Pinning pinning) {
  const char* text = std::getenv("INGOT_PIN");
  if (pinning != Pinning::kAuto || text == nullptr) return pinning;
  if (std::string_view(text) == "on") return Pinning::kOn;
  return std::string_view(text) == "off" ? Pinning::kOff : Pinning::kAuto;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  (void)sched_setaffinity(0, sizeof(set), &set);  // refused: the thread goes where the system puts it
}

constexpr uint64_t kLeft = 0xffffffffu;  // the part of a ticket that counts

void join_all(std::vector<std::thread>& workers, std::mutex& mutex, std::atomic<bool>& stop,
              std::condition_variable& wake) {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

int available_cores() {
  int cores = static_cast<int>(mask_cores().size());
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  if (const int quota = cgroup_cores(); quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

bool pins(Pinning pinning, const PinningFacts& facts) {
  if (facts.threads != facts.mask_cores || facts.threads != facts.available_cores) return false;
  return pinning == Pinning::kOn || (pinning == Pinning::kAuto && facts.nodes > 1);
}

ThreadPool::ThreadPool(int threads, Pinning pinning)
    : shares_(std::make_unique<Share[]>(static_cast<size_t>(threads))) {
  CHECK(threads >= 1, "{} threads", threads);
  // More threads than cores: whoever spins keeps another from its work.
  spin_ns_ = threads > available_cores() ? 0 : kSpinNs;
  std::vector<int> cores = mask_cores();
  const PinningFacts facts{.threads = threads,
                           .mask_cores = static_cast<int>(cores.size()),
                           .available_cores = available_cores(),
                           .nodes = numa_nodes(cores)};
  if (pins(by_environment(pinning), facts)) cores_ = std::move(cores);
  try {
    for (int i = 1; i < threads; ++i) {
      const int core = pinned() ? cores_[static_cast<size_t>(i)] : -1;
      workers_.emplace_back([this, i, core] {
        if (core >= 0) pin_to(core);
        work(i);
      });
    }
  } catch (...) {
    join_all(workers_, mutex_, stop_, wake_);  // those that began: a thread that nobody joins ends the program
    throw;
  }
}

void ThreadPool::pin_caller() const {
  if (pinned()) pin_to(cores_[0]);
}

ThreadPool::~ThreadPool() { join_all(workers_, mutex_, stop_, wake_); }

void ThreadPool::run_loops(const Loop* loops, int count) {
  const bool alone = workers_.empty() || std::all_of(loops, loops + count, [](const Loop& l) { return l.n <= 1; });
  if (alone) {
    for (const Loop* l = loops; l != loops + count; ++l) {
      for (int64_t i = 0; i < l->n; ++i) l->call(l->object, i, 0);
    }
    return;
  }
  ++regions_;
  loops_ = loops;
  end_ = loops + count;
  finished_.store(false, std::memory_order_relaxed);
  // The first loop is opened as if one before it had just been finished.
  advance(0);
  const auto finished = [&] { return finished_.load(std::memory_order_acquire); };
  while (!finished()) {
    // Read before looking for work: a loop that is opened after the look is then seen as a change.
    const uint32_t number = number_.load(std::memory_order_acquire);
    if (take_part(0)) continue;
    const auto changed = [&] { return finished() || number_.load(std::memory_order_acquire) != number; };
    if (!spin(spin_ns_, changed)) std::this_thread::yield();
  }
}

// Opens the next loop of the parallel-for, or finishes it. Called by whoever finished the loop before.
void ThreadPool::advance(int thread) {
  while (loops_ != end_) {
    const Loop& next = *loops_++;
    if (next.n > 1) return open(next);
    for (int64_t i = 0; i < next.n; ++i) next.call(next.object, i, thread);
  }
  finished_.store(true, std::memory_order_release);
}

void ThreadPool::open(const Loop& next) {
  const int64_t n = next.n, threads = this->threads();
  CHECK(n <= (int64_t{1} << 31), "{} parts of one loop", n);
  now_ = next;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t number = number_.load(std::memory_order_relaxed) + 1;
  for (int64_t t = 0; t < threads; ++t) {
    const Range own = share(n, t, threads);
    const auto left = static_cast<uint64_t>(own.end - own.begin);
    shares_[static_cast<size_t>(t)].ticket.store(uint64_t{number} << 32 | left, std::memory_order_release);
  }
  // Sequentially consistent, as is the sleepers' own pair: either a worker sees the loop or we see that it sleeps.
  number_.store(number);
  if (sleepers_.load() > 0) {
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
}

// Takes indices of the open loop while there are any, its own first. False where there were none.
bool ThreadPool::take_part(int thread) {
  const int threads = this->threads();
  int64_t taken = 0;
  for (int v = 0; v < threads; ++v) {
    const int64_t owner = (thread + v) % threads;
    std::atomic<uint64_t>& left = shares_[static_cast<size_t>(owner)].ticket;
    uint64_t ticket = left.load(std::memory_order_acquire);
    while ((ticket & kLeft) != 0) {
      if (!left.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
      const int64_t end = share(now_.n, owner, threads).end;
      now_.call(now_.object, end - static_cast<int64_t>(ticket & kLeft), thread);
      ++taken;
      ticket = left.load(std::memory_order_acquire);
    }
  }
  if (taken == 0) return false;
  // The loop cannot be closed before this, so its n is still that of the indices that were taken.
  const int64_t n = now_.n;
  if (done_.fetch_add(taken, std::memory_order_acq_rel) + taken == n) advance(thread);
  return true;
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  // Whoever sees the end sees the whole pool: it may be asked to end before it was asked for any loop.
  const auto changed = [&] { return number_.load() != seen || stop_.load(std::memory_order_acquire); };
  while (!stop_) {
    if (!spin(spin_ns_, changed)) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, changed);
      --sleepers_;
    }
    seen = number_.load();
    take_part(thread);
  }
}

}  // namespace ingot
