#include "serve/http/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <stdexcept>

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

}  // namespace
}  // namespace ingot
