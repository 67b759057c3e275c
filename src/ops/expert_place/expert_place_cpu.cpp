#include <algorithm>

#include "base/check.h"
#include "ops/expert_place/expert_place.h"

namespace ingot::cpu {
namespace {

constexpr int32_t kMostRanks = 64;

int64_t most_pieces(const ExpertPlace& op, int64_t rows) {
  return rows * op.experts.cols / ExpertPlace::kPiece + static_cast<int64_t>(op.index.size());
}

// A run's arrays in the memory that all threads share.
struct Pieces {
  Pieces(const ExpertPlace& op, std::byte* memory)
      : places(reinterpret_cast<int32_t*>(memory)), first(places + op.index.size()), rank(first + op.index.size()) {}
  static int64_t bytes(const ExpertPlace& op, int64_t rows) {
    return (2 * static_cast<int64_t>(op.index.size()) + most_pieces(op, rows)) * static_cast<int64_t>(sizeof(int32_t));
  }

  int32_t* places;  // [E] how many chose each expert
  int32_t* first;   // [E] its first piece
  int32_t* rank;    // who computes each piece
};

void count_places(const ExpertPlace& op, int64_t rows, int32_t* places) {
  const auto count = static_cast<int32_t>(op.index.size());
  std::fill_n(places, count, 0);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < op.experts.cols; ++j) {
      const int32_t e = op.experts.row<int32_t>(t)[j];
      CHECK(e >= 0 && e < count, "expert {} of {}", e, count);
      ++places[e];
    }
}

void deal(const ExpertPlace& op, const Pieces& pieces) {
  int32_t given[kMostRanks] = {}, next = 0;
  for (const bool shared : {false, true}) {
    for (size_t e = 0; e < op.index.size(); ++e) {
      const std::vector<int32_t>& holders = op.holders[e];
      if ((holders.size() > 1) != shared) continue;
      pieces.first[e] = next;
      for (int64_t left = pieces.places[e]; left > 0; left -= ExpertPlace::kPiece) {
        int32_t best = holders.front();
        for (const int32_t r : holders)
          if (given[r] < given[best]) best = r;
        ++given[best];
        pieces.rank[next++] = best;
      }
    }
  }
}

}  // namespace

void prepare(ExpertPlace& op, Prepare& p) {
  CHECK(op.holders.size() == op.index.size(), "{} and {} experts", op.holders.size(), op.index.size());
  for (const std::vector<int32_t>& ranks : op.holders)
    CHECK(!ranks.empty() && ranks.front() >= 0 && ranks.back() < kMostRanks, "an expert of {} ranks", ranks.size());
  p.need_shared(Pieces::bytes(op, Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.experts.rows)));
}

// By the calling thread: k numbers of each row.
void run(const ExpertPlace& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.experts);
  const Pieces pieces(op, ctx.shared);
  count_places(op, rows, pieces.places);
  deal(op, pieces);
  std::fill_n(pieces.places, op.index.size(), 0);  // now those that were passed
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < op.experts.cols; ++j) {
      const auto e = static_cast<size_t>(op.experts.row<int32_t>(t)[j]);
      const int32_t rank = pieces.rank[pieces.first[e] + pieces.places[e]++ / ExpertPlace::kPiece];
      op.ranks.row<int32_t>(t)[j] = rank;
      op.own.row<int32_t>(t)[j] = rank == op.rank ? op.index[e] : -1;
    }
}

}  // namespace ingot::cpu
