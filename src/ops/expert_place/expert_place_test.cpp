#include "ops/expert_place/expert_place.h"

#include <algorithm>
#include <array>

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

constexpr int kRanks = 3;
constexpr int64_t kExperts = 7, kUsed = 2;

// Experts 0 and 4 are on several ranks.
ExpertPlace place_on(int rank) {
  ExpertPlace op;
  op.rank = rank;
  op.holders = {{0, 1, 2}, {0}, {1}, {2}, {1, 2}, {0}, {2}};
  op.index.assign(kExperts, -1);
  int32_t next = 0;
  for (size_t e = 0; e < op.holders.size(); ++e)
    for (const int32_t r : op.holders[e])
      if (r == rank) op.index[e] = next++;
  return op;
}

struct Chosen {
  Batch batch;
  Buffer experts, own, ranks;

  explicit Chosen(int rows)
      : batch(test::rows_batch(rows)),
        experts(rows, kUsed, kTokenRows, kUsed, DType::kI32),
        own(rows, kUsed, kTokenRows, kUsed, DType::kI32),
        ranks(rows, kUsed, kTokenRows, kUsed, DType::kI32) {}
  void choose(int64_t t, int32_t a, int32_t b) {
    experts.tensor().row<int32_t>(t)[0] = a;
    experts.tensor().row<int32_t>(t)[1] = b;
  }
  ExpertPlace op(int rank) {
    ExpertPlace place = place_on(rank);
    place.experts = experts.tensor();
    place.own = own.tensor();
    place.ranks = ranks.tensor();
    return place;
  }
  int32_t rank_of(int64_t t, int64_t j) { return ranks.tensor().row<int32_t>(t)[j]; }
};

TEST(ExpertPlace, EveryPlaceHasOneRankThatHasTheExpert) {
  for (const int rows : {1, 5, 200}) {
    Chosen run(rows);
    Random random(3);
    for (int64_t t = 0; t < rows; ++t)
      run.choose(t, static_cast<int32_t>(random.below(4)), static_cast<int32_t>(4 + random.below(3)));
    std::vector<int32_t> first;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const bool ref : {false, true}) {
        const ExpertPlace op = run.op(rank);
        ref ? test::run_ref(op, run.batch) : test::run_cpu(op, run.batch);
        std::vector<int32_t> all;
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t j = 0; j < kUsed; ++j) {
            const auto e = static_cast<size_t>(op.experts.row<int32_t>(t)[j]);
            const int32_t who = run.rank_of(t, j);
            EXPECT_EQ(std::ranges::count(op.holders[e], who), 1);
            EXPECT_EQ(op.own.row<int32_t>(t)[j], who == rank ? op.index[e] : -1);
            all.push_back(who);
          }
        if (first.empty()) first = all;
        EXPECT_EQ(all, first) << rows << " rows, rank " << rank << (ref ? ", reference" : "");
      }
    }
  }
}

TEST(ExpertPlace, ARepeatedExpertGoesWhereLeastIs) {
  Chosen run(2);
  run.choose(0, 0, 1);  // 1 is rank 0's
  run.choose(1, 0, 4);
  test::run_cpu(run.op(0), run.batch);
  EXPECT_EQ(run.rank_of(0, 1), 0);
  EXPECT_EQ(run.rank_of(0, 0), 1);  // of 1 and 2, which have nothing, the first
  EXPECT_EQ(run.rank_of(1, 0), 1);  // read once
  EXPECT_EQ(run.rank_of(1, 1), 2);
}

TEST(ExpertPlace, ManyRowsOfOneExpertAreSpread) {
  constexpr int kRows = 3 * static_cast<int>(ExpertPlace::kPiece);
  Chosen run(kRows);
  for (int64_t t = 0; t < kRows; ++t) run.choose(t, 0, 0);
  test::run_cpu(run.op(1), run.batch);
  std::array<int, kRanks> rows{};
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t j = 0; j < kUsed; ++j) ++rows[static_cast<size_t>(run.rank_of(t, j))];
  for (const int own : rows) EXPECT_EQ(own, 2 * kRows / kRanks);
}

}  // namespace
}  // namespace ingot
