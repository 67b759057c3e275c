#include "serve/http/workers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ingot {
namespace {

TEST(Workers, RefusesBeyondItsQueueAndTakesAgainLater) {
  Workers workers(1, 2);
  std::promise<void> begun, gate;
  std::shared_future<void> open = gate.get_future().share();
  ASSERT_TRUE(workers.post([&, open] {
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();  // it waits no longer, it runs
  std::promise<void> last;
  EXPECT_TRUE(workers.post([] {}));
  EXPECT_TRUE(workers.post([&] { last.set_value(); }));
  EXPECT_FALSE(workers.post([] {}));
  EXPECT_EQ(workers.waiting(), 2u);
  gate.set_value();
  last.get_future().wait();
  EXPECT_TRUE(workers.post([] {}));
}

TEST(Workers, AJobThatThrowsIsCountedAndEndsNobody) {
  Workers workers(1);
  Strand strand(workers);
  EXPECT_TRUE(workers.post([] { throw std::runtime_error("x"); }));
  strand.post([] { throw 7; });
  std::promise<void> done;
  strand.post([&] { done.set_value(); });
  done.get_future().wait();
  std::promise<void> after;
  EXPECT_TRUE(workers.post([&] { after.set_value(); }));
  after.get_future().wait();
  EXPECT_EQ(workers.failed_jobs(), 2);
}

TEST(Workers, AStrandKeepsItsOrderAndRunsOneJobAtATime) {
  Workers workers(3);
  constexpr int kJobs = 2000;
  struct Line {
    std::unique_ptr<Strand> strand;
    std::vector<int> seen;
    std::atomic<int> inside{0};
    std::promise<void> done;
  };
  std::vector<Line> lines(4);
  std::atomic<bool> overlapped{false};
  for (Line& line : lines) line.strand = std::make_unique<Strand>(workers);
  for (int i = 0; i < kJobs; ++i) {
    for (Line& line : lines) {
      line.strand->post([&line, &overlapped, i] {
        if (++line.inside != 1) overlapped = true;
        line.seen.push_back(i);
        --line.inside;
        if (i == kJobs - 1) line.done.set_value();
      });
    }
  }
  for (Line& line : lines) {
    line.done.get_future().wait();
    ASSERT_EQ(line.seen.size(), static_cast<size_t>(kJobs));
    EXPECT_TRUE(std::is_sorted(line.seen.begin(), line.seen.end()));
  }
  EXPECT_FALSE(overlapped);
}

TEST(Workers, EndsWithJobsStillWaiting) {
  std::atomic<int> ran{0};
  {
    Workers workers(1);
    std::promise<void> begun;
    EXPECT_TRUE(workers.post([&] {
      begun.set_value();
      ++ran;
    }));
    begun.get_future().wait();
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(workers.post([&] { ++ran; }));
  }
  EXPECT_GE(ran, 1);
  EXPECT_LE(ran, 101);
}

// Set once by a job and waited for by the test, which may end while the job still sets it.
struct Signal {
  void set() const { promise->set_value(); }
  void wait() const { future.wait(); }
  std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
  std::shared_future<void> future = promise->get_future().share();
};

// Keeps a thread of `workers` until it goes.
class Blocker {
 public:
  explicit Blocker(Workers& workers, JobCost cost = {}) {
    const bool taken = workers.post(
        [begun = begun_, gate = gate_, ended = ended_] {
          begun.set();
          gate.wait();
          ended.set();
        },
        std::move(cost));
    EXPECT_TRUE(taken);
    begun_.wait();
  }
  ~Blocker() { release(); }
  void release() {
    if (std::exchange(released_, true)) return;
    gate_.set();
    ended_.wait();
  }

 private:
  const Signal begun_, gate_, ended_;
  bool released_ = false;
};

TEST(Workers, PayersTakeTurns) {
  std::mutex mutex;
  std::string order;
  const Signal done;
  Workers workers(1);
  {
    Blocker blocker(workers);
    const auto post = [&](char payer) {
      EXPECT_TRUE(workers.post(
          [&, payer] {
            const std::lock_guard lock(mutex);
            order += payer;
            if (order.size() == 9) done.set();
          },
          {.payer = std::string(1, payer)}));
    };
    for (int i = 0; i < 6; ++i) post('a');
    for (int i = 0; i < 2; ++i) post('b');
    post('c');
  }
  done.wait();
  EXPECT_EQ(order, "abcabaaaa");
}

TEST(Workers, NobodyTakesTheRoomOfTheNext) {
  Workers workers(1, 100, 1000);
  Blocker blocker(workers);
  const auto taken = [&](const char* payer, size_t bytes) {
    int count = 0;
    while (workers.post([] {}, {.payer = payer, .bytes = bytes})) ++count;
    return count;
  };
  EXPECT_EQ(taken("a", 0), 51);
  EXPECT_EQ(taken("b", 0), 25);
  EXPECT_EQ(taken("c", 0), 13);
  Workers other(1, 1000, 1000);
  Blocker second(other);
  int first = 0;
  while (other.post([] {}, {.payer = "a", .bytes = 10})) ++first;
  EXPECT_EQ(first, 50);
  EXPECT_TRUE(other.post([] {}, {.payer = "b", .bytes = 400}));
  EXPECT_FALSE(other.post([] {}, {.payer = "c", .bytes = 400}));
}

TEST(Workers, ALongTextLeavesAThreadForTheOthers) {
  Workers workers(2);
  const JobCost large{.payer = "a", .bytes = Workers::kLargeBytes + 1};
  Blocker blocker(workers, large);
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(workers.post([&] { ++ran; }, large));
  for (int i = 0; i < 3; ++i) {
    const Signal small;
    EXPECT_TRUE(workers.post([small] { small.set(); }, {.payer = "b", .bytes = 1000}));
    small.wait();
  }
  EXPECT_EQ(ran, 0);
  blocker.release();
  while (ran < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Workers, APayerMayHaveSeveralJobsAtOnce) {
  Workers workers(3);
  const JobCost cost{.payer = "a"};
  Blocker first(workers, cost), second(workers, cost), third(workers, cost);
  second.release();
  first.release();
  Blocker again(workers, cost);
}

TEST(Workers, TellsHowLongItsLongestJobRuns) {
  Workers workers(2);
  EXPECT_EQ(workers.busy_seconds(), 0);
  {
    Blocker blocker(workers);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_GE(workers.busy_seconds(), 0.03);
    const Signal other;
    EXPECT_TRUE(workers.post([other] { other.set(); }));
    other.wait();
    EXPECT_GE(workers.busy_seconds(), 0.03);
  }
  while (workers.busy_seconds() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A long text of one payer lets another's go first between two pieces; its own wait for their turn.
TEST(Workers, ALongJobLetsThoseOfOthersGoFirst) {
  Workers workers;
  std::vector<std::string> order;
  std::promise<void> all;
  const auto large = [](const char* payer) { return JobCost{.payer = payer, .bytes = Workers::kLargeBytes + 1}; };
  ASSERT_TRUE(workers.post(
      [&] {
        order.push_back("a begins");
        EXPECT_FALSE(workers.give_way());
        ASSERT_TRUE(workers.post([&] { order.push_back("a again"); }, large("a")));
        EXPECT_FALSE(workers.give_way()) << "its own go in their order";
        ASSERT_TRUE(workers.post(
            [&] {
              order.push_back("b");
              EXPECT_FALSE(workers.give_way()) << "whoever waits for b is not begun again";
            },
            large("b")));
        EXPECT_TRUE(workers.give_way());
        order.push_back("a ends");
        ASSERT_TRUE(workers.post([&] { all.set_value(); }, large("c")));
      },
      large("a")));
  all.get_future().wait();
  workers.stop();
  EXPECT_EQ(order[0], "a begins");
  EXPECT_EQ(order[1], "b");
  EXPECT_EQ(order[2], "a ends");
  EXPECT_FALSE(workers.give_way()) << "nothing on another thread";
}

// Whatever the process itself has: under `nice -n 7` an absolute value of 5 would be a higher one.
TEST(Workers, LargeBodiesHaveALowerPriorityThanTheProcess) {
  std::thread([] {
    const int now = ::getpriority(PRIO_PROCESS, 0), own = std::max(now, std::min(now + 7, 14));
    ::setpriority(PRIO_PROCESS, 0, own);  // of this thread; those that it begins inherit it
    ASSERT_EQ(::getpriority(PRIO_PROCESS, 0), own);
    Workers workers;
    std::promise<int> large, small;
    ASSERT_TRUE(
        workers.post([&] { large.set_value(::getpriority(PRIO_PROCESS, 0)); }, {.bytes = Workers::kLargeBytes + 1}));
    ASSERT_TRUE(workers.post([&] { small.set_value(::getpriority(PRIO_PROCESS, 0)); }));
    EXPECT_EQ(large.get_future().get(), std::min(own + 5, 19));
    EXPECT_EQ(small.get_future().get(), own);
    EXPECT_FALSE(workers.priority_refused());
  }).join();
}

}  // namespace
}  // namespace ingot
