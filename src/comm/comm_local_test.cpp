#include "comm/comm_local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "base/random_test_support.h"

namespace ingot {
namespace {

using namespace std::chrono_literals;
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

// A value that says whose it is, and of which call.
float value_of(uint64_t key, int rank, int64_t i) {
  Random random(key * 131 + static_cast<uint64_t>(rank) * 1009 + static_cast<uint64_t>(i));
  return random.normal();
}
std::byte byte_of(uint64_t key, int rank, int64_t i) {
  return static_cast<std::byte>(key * 31 + static_cast<uint64_t>(rank) * 7 + static_cast<uint64_t>(i));
}

std::vector<float> floats_of(uint64_t key, int rank, int64_t n) {
  std::vector<float> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(value_of(key, rank, i));
  return all;
}

float sum_of(uint64_t key, int ranks, int64_t i) {
  float sum = value_of(key, 0, i);
  for (int r = 1; r < ranks; ++r) sum += value_of(key, r, i);
  return sum;
}

// Each of these is one call of all ranks with numbers from `key`, checked on each.
void check_gather(Comm& comm, uint64_t key, int64_t rows, int64_t columns) {
  std::vector<int64_t> begin{0};
  for (int r = 0; r < comm.ranks(); ++r) begin.push_back(begin.back() + (columns + r * 3) % (columns + 1));
  const int64_t pitch = begin.back() + 5;
  std::vector<std::byte> all(static_cast<size_t>(rows * pitch), std::byte{0});
  std::vector<CommBlock> parts;
  const bool wants = comm.rank() == 0 || key % 2 == 0;
  for (size_t r = 0; r < static_cast<size_t>(comm.ranks()); ++r) {
    const bool there = wants || static_cast<int>(r) == comm.rank();
    parts.push_back({there ? all.data() + begin[r] : nullptr, rows, begin[r + 1] - begin[r], pitch});
  }
  const auto r = static_cast<size_t>(comm.rank());
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = begin[r]; c < begin[r + 1]; ++c)
      all[static_cast<size_t>(t * pitch + c)] = byte_of(key, comm.rank(), t * 13 + c);
  comm.all_gather(parts);
  bool good = true;
  for (int64_t t = 0; t < rows; ++t)
    for (size_t from = 0; from + 1 < begin.size(); ++from)
      for (int64_t c = begin[from]; c < begin[from + 1]; ++c) {
        const bool there = wants || from == r;
        good &= all[static_cast<size_t>(t * pitch + c)] ==
                (there ? byte_of(key, static_cast<int>(from), t * 13 + c) : std::byte{0});
      }
  EXPECT_TRUE(good) << "all_gather " << key;
}

void check_reduce(Comm& comm, uint64_t key, int64_t n) {
  std::vector<float> x = floats_of(key, comm.rank(), n);
  comm.all_reduce(x);
  bool good = true;
  for (int64_t i = 0; i < n; ++i) good &= x[static_cast<size_t>(i)] == sum_of(key, comm.ranks(), i);
  EXPECT_TRUE(good) << "all_reduce " << key;
}

void check_scatter(Comm& comm, uint64_t key, int64_t n) {
  std::vector<int64_t> begins{0};
  for (int r = 1; r < comm.ranks(); ++r) begins.push_back(n * r * r / (comm.ranks() * comm.ranks()));
  begins.push_back(n);
  std::vector<float> x = floats_of(key, comm.rank(), n);
  const auto r = static_cast<size_t>(comm.rank());
  comm.reduce_scatter(x, begins, x.data() + begins[r]);
  bool good = true;
  for (int64_t i = begins[r]; i < begins[r + 1]; ++i) good &= x[static_cast<size_t>(i)] == sum_of(key, comm.ranks(), i);
  EXPECT_TRUE(good) << "reduce_scatter " << key;
}

void check_exchange(Comm& comm, uint64_t key, int64_t n) {
  const auto length = [&](int from, int to) { return static_cast<size_t>((n + 3 * from + 5 * to) % (n + 1)); };
  std::vector<std::vector<std::byte>> give, got;
  for (int r = 0; r < comm.ranks(); ++r) {
    give.emplace_back(length(comm.rank(), r), byte_of(key, comm.rank(), r));
    got.emplace_back(length(r, comm.rank()));
  }
  const std::vector<std::span<const std::byte>> from(give.begin(), give.end());
  const std::vector<std::span<std::byte>> to(got.begin(), got.end());
  comm.all_to_all(from, to);
  for (int r = 0; r < comm.ranks(); ++r)
    EXPECT_EQ(got[static_cast<size_t>(r)],
              std::vector<std::byte>(length(r, comm.rank()), byte_of(key, r, comm.rank())));
}

void check_broadcast(Comm& comm, uint64_t key, int64_t n) {
  const int root = static_cast<int>(key % static_cast<uint64_t>(comm.ranks()));
  std::vector<std::byte> bytes(static_cast<size_t>(n), byte_of(key, comm.rank(), 0));
  comm.broadcast(bytes, root);
  EXPECT_EQ(bytes, std::vector<std::byte>(static_cast<size_t>(n), byte_of(key, root, 0)));
}

// Rank r sends to the next one and hears from the one before.
void check_messages(Comm& comm, uint64_t key, int64_t n) {
  const int to = (comm.rank() + 1) % comm.ranks(), from = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  std::vector<std::byte> into(static_cast<size_t>(n + comm.ranks()));
  comm.send(std::vector<std::byte>(static_cast<size_t>(n + comm.rank()), byte_of(key, comm.rank(), 0)), to);
  const int64_t length = comm.recv(into, from, 10s);
  EXPECT_EQ(length, n + from);
  into.resize(static_cast<size_t>(length));
  EXPECT_EQ(into, std::vector<std::byte>(static_cast<size_t>(length), byte_of(key, from, 0)));
}

void check_call(Comm& comm, uint64_t kind, uint64_t key, int64_t n) {
  switch (kind) {
    case 0:
      return check_gather(comm, key, 1 + n % 3, n);
    case 1:
      return check_reduce(comm, key, n);
    case 2:
      return check_scatter(comm, key, n);
    case 3:
      return check_exchange(comm, key, n);
    case 4:
      return check_broadcast(comm, key, n);
    default:
      return check_messages(comm, key, n);
  }
}
constexpr uint64_t kKinds = 6;

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
