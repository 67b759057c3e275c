#include "comm/comm_local.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "comm/comm_checks_test_support.h"

namespace ingot {
namespace {

using namespace std::chrono_literals;
using test::check_call;
using test::kKinds;
using test::Random;

// Runs body(comm) on a thread for each rank. Returns what each threw; empty where it did not.
std::vector<std::string> run_ranks(std::vector<std::unique_ptr<Comm>>& comms, const std::function<void(Comm&)>& body) {
  std::vector<std::string> threw(comms.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < comms.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(*comms[r]);
      } catch (const CommError& error) {
        threw[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return threw;
}

void expect_no_errors(const std::vector<std::string>& threw) {
  for (const std::string& error : threw) EXPECT_EQ(error, "");
}

TEST(CommLocal, EveryCallInEverySize) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool spins : {false, true}) {
      auto comms = make_local_comms(ranks, spins);
      expect_no_errors(run_ranks(comms, [](Comm& comm) {
        for (const int64_t n : {0, 1, 2, 3, 7, 64, 1001, 40'000, 70'001})
          for (uint64_t kind = 0; kind < kKinds; ++kind)
            if (kind != 5 || comm.ranks() > 1) check_call(comm, kind, static_cast<uint64_t>(n) + kind, n);
      }));
    }
  }
}

TEST(CommLocal, CountsWhatIsGivenAndWaitedFor) {
  auto comms = make_local_comms(3, false);
  expect_no_errors(run_ranks(comms, [](Comm& comm) {
    std::vector<std::byte> memory(300);
    std::vector<CommBlock> parts;
    for (size_t r = 0; r < 3; ++r) parts.push_back({.data = memory.data() + 100 * r, .bytes = 100});
    if (comm.rank() == 2) std::this_thread::sleep_for(50ms);  // the others wait
    comm.all_gather(parts);
    comm.gather(parts, 1);
    std::vector<float> sums(30);
    comm.all_reduce(sums);
    comm.broadcast(memory, 0);
    if (comm.rank() == 2) comm.send(memory, 0);
    if (comm.rank() == 0) comm.recv(memory, 2, Comm::kForever);
  }));
  const auto given = [&](size_t r, CommKind kind) { return comms[r]->meter.counts().bytes[static_cast<size_t>(kind)]; };
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(given(r, CommKind::kAllGather), 200) << r;
    EXPECT_EQ(given(r, CommKind::kGather), r == 1 ? 0 : 100) << r;
    EXPECT_EQ(given(r, CommKind::kAllReduce), 240) << r;
    EXPECT_EQ(given(r, CommKind::kBroadcast), r == 0 ? 600 : 0) << r;
    EXPECT_EQ(given(r, CommKind::kMessage), r == 2 ? 300 : 0) << r;
    const RankCounts counts = comms[r]->meter.counts();
    EXPECT_LE(counts.wait_ns, counts.collective_ns) << r;
    EXPECT_GT(counts.wait_ns, r == 2 ? -1 : 30'000'000) << r;
  }
}

TEST(CommLocal, AWaitWithoutAnEndIsIdleness) {
  auto comms = make_local_comms(2, false);
  expect_no_errors(run_ranks(comms, [](Comm& comm) {
    std::byte one{};
    if (comm.rank() == 1) std::this_thread::sleep_for(20ms);
    if (comm.rank() == 1) comm.send(std::span(&one, 1), 0);
    if (comm.rank() == 0) comm.recv(std::span(&one, 1), 1, Comm::kForever);
  }));
  EXPECT_EQ(comms[0]->meter.counts().wait_ns, 0);
}

// 10,000 sequences of calls of random kinds and sizes, some ranks late.
TEST(CommLocal, RandomSequences) {
  for (const int ranks : {2, 3, 4}) {
    auto comms = make_local_comms(ranks, ranks == 2);
    expect_no_errors(run_ranks(comms, [ranks](Comm& comm) {
      const uint64_t sequences = ranks == 2 ? 5000 : 2500;
      Random late(static_cast<uint64_t>(comm.rank()));
      for (uint64_t seed = 0; seed < sequences; ++seed) {
        Random random(seed);
        const int64_t calls = 1 + random.below(4);
        for (int64_t i = 0; i < calls; ++i) {
          const uint64_t kind = static_cast<uint64_t>(random.below(static_cast<int64_t>(kKinds))), key = random.bits();
          const int64_t n = random.below(random.below(200) == 0 ? 30'000 : 60);
          if (late.below(500) == 0) std::this_thread::sleep_for(1ms);
          check_call(comm, kind, key, n);
        }
      }
    }));
  }
}

TEST(CommLocal, DeadlineNamesRankStepAndWait) {
  for (const bool spins : {false, true}) {
    auto comms = make_local_comms(3, spins);
    const auto began = std::chrono::steady_clock::now();
    const std::vector<std::string> threw = run_ranks(comms, [](Comm& comm) {
      comm.deadline = comm.rank() == 0 ? 50ms : 20'000ms;
      comm.step = 17;
      float x = 1;
      if (comm.rank() != 2) comm.all_reduce(std::span(&x, 1));
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
    EXPECT_EQ(threw[0], "[comm] rank 0, step 17: in all_reduce, for rank 2: it did not come in 50 ms");
    // The other one waits no longer.
    EXPECT_NE(threw[1].find("rank 1, step 17: in all_reduce"), std::string::npos) << threw[1];
    EXPECT_NE(threw[1].find("rank 0 waited for rank 2"), std::string::npos) << threw[1];
  }
}

TEST(CommLocal, AbortEndsEveryWaitAndAllCallsAfterIt) {
  for (const bool spins : {false, true}) {
    auto comms = make_local_comms(4, spins);
    const std::vector<std::string> threw = run_ranks(comms, [](Comm& comm) {
      std::byte byte{};
      float x = 1;
      if (comm.rank() == 3) {
        std::this_thread::sleep_for(20ms);
        comm.abort("no memory");
        comm.abort("another reason");
      }
      if (comm.rank() == 1) comm.recv(std::span(&byte, 1), 3, Comm::kForever);
      comm.all_reduce(std::span(&x, 1));
    });
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_NE(threw[r].find("rank 3: no memory"), std::string::npos) << threw[r];
      EXPECT_EQ(threw[r].find(fmt::format("[comm] rank {}, step 0: in {}", r, r == 1 ? "recv" : "all_reduce")), 0u)
          << threw[r];
    }
    EXPECT_THROW(comms[0]->send({}, 1), CommError);
  }
}

TEST(CommLocal, ARankThatHasGoneEndsTheOthersWaits) {
  auto comms = make_local_comms(2, false);
  std::thread leaves([rank = std::move(comms[1])]() mutable {
    rank->send(std::vector<std::byte>(3), 0);
    std::this_thread::sleep_for(20ms);
    rank.reset();
  });
  std::vector<std::byte> into(8);
  // What it said before it went is heard.
  EXPECT_EQ(comms[0]->recv(into, 1, Comm::kForever), 3);
  try {
    comms[0]->recv(into, 1, Comm::kForever);
    ADD_FAILURE() << "nobody sent that";
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "[comm] rank 0, step 0: in recv, for rank 1: it has gone");
  }
  leaves.join();
}

TEST(CommLocal, RanksThatDisagreeAreTold) {
  auto comms = make_local_comms(2, false);
  const std::vector<std::string> threw = run_ranks(comms, [](Comm& comm) {
    std::vector<float> x(static_cast<size_t>(4 + comm.rank()));
    comm.all_reduce(x);
  });
  EXPECT_NE(threw[0] + threw[1], "");
  EXPECT_NE((threw[0] + threw[1]).find("values, not"), std::string::npos) << threw[0] << threw[1];
}

// A rank that gives up in the middle of a large collective keeps its memory for as long as others read it.
TEST(CommLocal, WhoGivesUpWaitsForThoseWhoRead) {
  auto comms = make_local_comms(2, true);
  constexpr size_t kBytes = 64 << 20;
  std::vector<std::byte> given(kBytes, std::byte{1}), got(kBytes, std::byte{1});
  std::byte small{};
  const std::vector<std::string> threw = run_ranks(comms, [&](Comm& comm) {
    const bool reads = comm.rank() == 0;
    comm.deadline = reads ? 20'000ms : 1ms;
    const CommBlock large{.data = reads ? got.data() : given.data(), .bytes = kBytes};
    std::byte own_small{};
    const std::vector<CommBlock> parts{{.data = reads ? &small : &own_small, .bytes = 1}, large};
    try {
      if (!reads) std::this_thread::sleep_for(5ms);  // rank 0 waits already
      comm.all_gather(parts);
    } catch (const CommError&) {
      if (!reads) std::ranges::fill(given, std::byte{2});  // as if it were freed
      throw;
    }
  });
  EXPECT_NE(threw[1].find("did not come in 1 ms"), std::string::npos) << threw[1];
  EXPECT_EQ(std::ranges::count(got, std::byte{2}), 0);
}

// A rank that waits uses no processor.
TEST(CommLocal, WaitingSleeps) {
  auto comms = make_local_comms(2, true);
  int64_t used_ns = 0;
  std::thread waits([&, rank = std::move(comms[1])] {
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    std::byte byte{};
    rank->recv(std::span(&byte, 1), 0, Comm::kForever);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    used_ns = (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  });
  std::this_thread::sleep_for(300ms);
  comms[0]->send(std::vector<std::byte>(1), 1);
  waits.join();
  EXPECT_LT(used_ns, 3'000'000);  // a hundredth of the time
}

}  // namespace
}  // namespace ingot
