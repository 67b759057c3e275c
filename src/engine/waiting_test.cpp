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

TEST(Pace, ChunksShrinkUntilTheStepFits) {
  Pace pace(0.1, 16, 512);
  EXPECT_EQ(pace.prompt_rows(), 64);  // nothing is known yet
  pace.measured(8, 0, 0.02);
  pace.measured(8, 64, 0.02 + 64 * 0.001);
  EXPECT_EQ(pace.prompt_rows(), 64);  // (90 - 20) / 1 ms a row, in whole tiles of 16
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.004);
  EXPECT_EQ(pace.prompt_rows(), 16);
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.0001);
  EXPECT_EQ(pace.prompt_rows(), 512);
  EXPECT_EQ(Pace(0, 16, 512).prompt_rows(), 512);  // no target
}

}  // namespace
}  // namespace ingot
