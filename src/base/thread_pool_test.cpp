#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/numa.h"

namespace ingot {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t n : {0, 1, 2, 7, 64, 10000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(n));
      std::atomic<int> bad_thread{0};
      pool.run(n, [&](int64_t i, int thread) {
        ++calls[static_cast<size_t>(i)];
        if (thread < 0 || thread >= threads) ++bad_thread;
      });
      for (const auto& c : calls) ASSERT_EQ(c, 1);
      ASSERT_EQ(bad_thread, 0);
    }
  }
}

// Plain memory, written by the workers and read by the caller and by the next loop: run() orders both.
TEST(ThreadPool, ManyTinyLoopsSeeEachOthersWrites) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<int64_t> values(16, 0), others(16, 0);
    for (int loop = 0; loop < 500; ++loop) {
      pool.run(16, [&](int64_t i, int) { values[static_cast<size_t>(i)] += others[static_cast<size_t>(15 - i)] + 1; });
      pool.run(16,
               [&](int64_t i, int) { others[static_cast<size_t>(i)] = values[static_cast<size_t>(15 - i)] % 1000; });
      ASSERT_EQ(others[0], values[15] % 1000);
    }
    std::vector<int64_t> want(16, 0), want_others(16, 0);
    for (int loop = 0; loop < 500; ++loop) {
      for (size_t i = 0; i < 16; ++i) want[i] += want_others[15 - i] + 1;
      for (size_t i = 0; i < 16; ++i) want_others[i] = want[15 - i] % 1000;
    }
    EXPECT_EQ(values, want);
  }
}

TEST(ThreadPool, AThreadNumberIsNeverHeldByTwo) {
  ThreadPool pool(4);
  for (int loop = 0; loop < 200; ++loop) {
    std::vector<int> in_use(4, 0);  // of each thread's scratch
    std::atomic<int> clashes{0};
    pool.run(40, [&](int64_t, int thread) {
      if (++in_use[static_cast<size_t>(thread)] != 1) ++clashes;
      --in_use[static_cast<size_t>(thread)];
    });
    ASSERT_EQ(clashes, 0);
  }
}

TEST(ThreadPool, WorkersTakePart) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each waits for the other: only two threads at once can finish.
  pool.run(2, [&](int64_t, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, MakingAndDroppingIsClean) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 8);
    if (i % 2) pool.run(i, [](int64_t, int) {});
  }
}

// Each loop reads what the one before wrote, all of it.
TEST(ThreadPool, PhasesComeOneAfterTheOther) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      const int64_t n = 1 + round % 40;
      std::vector<int64_t> first(static_cast<size_t>(n), 0), last(static_cast<size_t>(n), 0);
      int64_t sum = 0;
      const auto fill = [&](int64_t i, int) { first[static_cast<size_t>(i)] = i + round; };
      const auto add = [&](int64_t, int) {
        for (const int64_t value : first) sum += value;
      };
      const auto spread = [&](int64_t i, int) { last[static_cast<size_t>(i)] = sum + i; };
      const int64_t before = pool.regions();
      pool.run_phases(loop(n, fill), loop(1, add), loop(0, add), loop(n, spread));
      EXPECT_EQ(pool.regions() - before, threads > 1 && n > 1 ? 1 : 0);
      const int64_t want = n * (n - 1) / 2 + n * round;
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(last[static_cast<size_t>(i)], want + i) << round;
    }
  }
}

// One index takes longer than all others: whoever is free takes what the busy thread has not begun.
TEST(ThreadPool, UnequalWorkIsShared) {
  ThreadPool pool(2);
  std::atomic<int> others{0};
  pool.run(64, [&](int64_t i, int) {
    if (i != 0) {
      ++others;
      return;
    }
    while (others < 63) std::this_thread::yield();
  });
  EXPECT_EQ(others, 63);
}

TEST(ThreadPool, MoreThreadsThanCores) {
  ThreadPool pool(4 * available_cores() + 1);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 200; ++round) pool.run(100, [&](int64_t i, int) { sum += i; });
  EXPECT_EQ(sum, 200 * 4950);
}

TEST(ThreadPool, PinnedOnlyToTheWholeMask) {
  EXPECT_FALSE(ThreadPool(available_cores() + 1, Pinning::kOn).pinned());
  EXPECT_FALSE(ThreadPool(2, Pinning::kOff).pinned());
  ThreadPool pool(std::max(1, available_cores() - 1), Pinning::kOn);
  EXPECT_FALSE(available_cores() > 1 && pool.pinned());
  ThreadPool all(available_cores(), Pinning::kOn);
  std::atomic<int> calls{0};
  all.run(100, [&](int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 100);
}

TEST(ThreadPool, PinsOnSeveralNodesByItself) {
  const PinningFacts one{.threads = 8, .mask_cores = 8, .available_cores = 8, .nodes = 1};
  PinningFacts two = one;
  two.nodes = 2;
  EXPECT_FALSE(pins(Pinning::kAuto, one));
  EXPECT_TRUE(pins(Pinning::kAuto, two));
  EXPECT_TRUE(pins(Pinning::kOn, one));
  EXPECT_FALSE(pins(Pinning::kOff, two));
  for (const int threads : {4, 9}) {
    PinningFacts other = two;
    other.threads = threads;
    EXPECT_FALSE(pins(Pinning::kOn, other));
    EXPECT_FALSE(pins(Pinning::kAuto, other));
  }
  // A quota of 4 cores, and as many threads: not the first four of the mask.
  PinningFacts quota = two;
  quota.available_cores = 4;
  EXPECT_FALSE(pins(Pinning::kOn, quota));
  quota.threads = 4;
  EXPECT_FALSE(pins(Pinning::kOn, quota));
}

// The cores that each thread of the pool may use.
std::vector<std::vector<int>> cores_of_threads(ThreadPool& pool) {
  std::vector<std::vector<int>> cores(static_cast<size_t>(pool.threads()));
  std::atomic<int> arrived{0};
  // Each waits for all others, so that each has one index.
  pool.run(pool.threads(), [&](int64_t, int thread) {
    cores[static_cast<size_t>(thread)] = mask_cores();
    ++arrived;
    while (arrived < pool.threads()) std::this_thread::yield();
  });
  return cores;
}

TEST(ThreadPool, PinnedThreadsMayUseTheirOwnCore) {
  // In a thread of its own, which the pool may pin.
  std::thread([] {
    const std::vector<int> mask = mask_cores();
    const int threads = static_cast<int>(mask.size());
    cpu_set_t set;
    if (threads == 0 || sched_getaffinity(0, sizeof(set), &set) != 0 || sched_setaffinity(0, sizeof(set), &set) != 0) {
      GTEST_SKIP() << "the system does not let a thread choose its cores";
    }
    const std::vector<std::vector<int>> anywhere(mask.size(), mask);
    ThreadPool loose(threads, Pinning::kOff);
    loose.pin_caller();
    EXPECT_EQ(cores_of_threads(loose), anywhere);
    if (available_cores() != threads) GTEST_SKIP() << "a quota below the cores: nothing is pinned";
    ThreadPool pool(threads, Pinning::kOn);
    std::vector<std::vector<int>> want = anywhere;
    for (size_t t = 1; t < mask.size(); ++t) want[t] = {mask[t]};
    EXPECT_EQ(cores_of_threads(pool), want);
    pool.pin_caller();
    want[0] = {mask[0]};
    EXPECT_EQ(cores_of_threads(pool), want);
  }).join();
}

TEST(ThreadPool, SharesCoverALoop) {
  for (const int64_t n : {1, 2, 7, 64, 1000}) {
    for (const int64_t threads : {1, 2, 3, 16}) {
      int64_t next = 0;
      for (int64_t t = 0; t < threads; ++t) {
        const ThreadPool::Range share = ThreadPool::share(n, t, threads);
        EXPECT_EQ(share.begin, next);
        next = share.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

// Nobody takes from another's share before every thread has an index: each waits for that with its first.
TEST(ThreadPool, AThreadBeginsWithItsShare) {
  constexpr int64_t kN = 30;
  for (int round = 0; round < 10; ++round) {
    ThreadPool pool(3);  // a new one: a worker that still looks for more of the last loop may begin anywhere
    std::vector<int64_t> first(3, -1);
    std::atomic<int> arrived{0};
    pool.run(kN, [&](int64_t i, int thread) {
      if (first[static_cast<size_t>(thread)] >= 0) return;
      first[static_cast<size_t>(thread)] = i;
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
    for (int64_t t = 0; t < 3; ++t) EXPECT_EQ(first[static_cast<size_t>(t)], ThreadPool::share(kN, t, 3).begin);
  }
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// As many threads as cores spin before they sleep, more sleep at once.
TEST(ThreadPool, IdleWorkersUseNoCpu) {
  for (const int threads : {available_cores(), available_cores() + 2}) {
    ThreadPool pool(threads);
    pool.run(100, [](int64_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    // One spinning worker would use 0.2 s.
    EXPECT_LT(cpu_seconds() - before, 0.02) << threads << " threads";
  }
}

TEST(ThreadPool, AtLeastOneCoreIsAvailable) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace ingot
