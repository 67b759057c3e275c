#include "engine/waiting.h"

#include <gtest/gtest.h>

#include "engine/pace.h"

namespace ingot {
namespace {

struct Seqs {
  std::vector<std::unique_ptr<Sequence>> all;
  Sequence& make(SeqId id, const std::string& tenant, int64_t rank) {
    auto request = std::make_shared<Request>();
    request->tenant = tenant;
    all.push_back(std::make_unique<Sequence>());
    all.back()->id = id;
    all.back()->request = std::move(request);
    all.back()->rank = rank;
    return *all.back();
  }
};

TEST(Waiting, OneTenantByRank) {
  Seqs seqs;
  Waiting waiting;
  for (const int rank : {5, 3, 9}) {
    Sequence& seq = seqs.make(rank, "a", rank);
    waiting.enter("a");
    waiting.add(seq);
  }
  std::vector<int64_t> order;
  while (Sequence* seq = waiting.next()) {
    order.push_back(seq->rank);
    waiting.remove(*seq);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{3, 5, 9}));
}

// A flood of one tenant: the other's few requests are served in turn, and time away earns nothing.
TEST(Waiting, TenantsGetEqualShares) {
  Seqs seqs;
  Waiting waiting;
  for (int i = 0; i < 100; ++i) {
    waiting.enter("flood");
    waiting.add(seqs.make(i, "flood", i));
  }
  waiting.served("flood", 5000);
  for (int i = 100; i < 110; ++i) {
    waiting.enter("small");
    waiting.add(seqs.make(i, "small", i));
  }
  int small = 0;
  for (int turn = 0; turn < 20; ++turn) {
    Sequence* seq = waiting.next();
    small += seq->request->tenant == "small";
    waiting.served(seq->request->tenant, 10);
    waiting.remove(*seq);
  }
  EXPECT_EQ(small, 10);
}

// New names without end cannot hold back one that was served before.
TEST(Waiting, AStreamOfNewTenantsStarvesNobody) {
  Seqs seqs;
  Waiting waiting;
  waiting.enter("old");
  waiting.served("old", 1000);
  waiting.add(seqs.make(0, "old", 0));
  for (int i = 1; i < 2000; ++i) {
    const std::string name = "new" + std::to_string(i);
    waiting.enter(name);
    waiting.add(seqs.make(i, name, i));
    Sequence* seq = waiting.next();
    if (seq->id == 0) return;
    waiting.served(seq->request->tenant, 50);
    waiting.remove(*seq);
    waiting.leave(seq->request->tenant);
  }
  FAIL() << "it never had its turn";
}

// One slow step does not let the chunks grow beyond what fits.
TEST(Pace, RecoversFromAnOutlier) {
  Pace pace(0.1, 16, 512);
  for (int i = 0; i < 5; ++i) pace.measured(8, 0, 0.02);
  for (int i = 0; i < 5; ++i) pace.measured(8, 64, 0.02 + 64 * 0.001);
  pace.measured(8, 0, 0.5);
  for (int i = 0; i < 10; ++i) {
    const int rows = pace.prompt_rows();
    const double seconds = 0.02 + rows * 0.001;
    EXPECT_LT(seconds, 0.2);
    pace.measured(8, rows, seconds);
  }
  EXPECT_GE(pace.prompt_rows(), 32);
  pace.measured(8, 0, 0.02);
  pace.measured(8, 0, 0.02);
  EXPECT_LE(0.02 + pace.prompt_rows() * 0.001, 0.2);
}

TEST(Pace, ChunksShrinkUntilTheStepFits) {
  Pace pace(0.1, 16, 512);
  EXPECT_EQ(pace.prompt_rows(), 64);  // nothing is known yet
  pace.measured(8, 0, 0.02);
  pace.measured(8, 64, 0.02 + 64 * 0.001);
  EXPECT_EQ(pace.prompt_rows(), 64);  // (90 - 20) / 1 ms a row, in whole tiles of 16
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.004);
  EXPECT_EQ(pace.prompt_rows(), 16);
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.0001);
  EXPECT_GE(pace.prompt_rows(), 256);
  EXPECT_EQ(Pace(0, 16, 512).prompt_rows(), 512);  // no target
}

}  // namespace
}  // namespace ingot
