#include <algorithm>
#include <map>
#include <vector>

#include "ops/expert_place/expert_place.h"

namespace ingot::ref {

// First all places of each expert, then who has them.
void run(const ExpertPlace& op, Ctx& ctx) {
  std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> places;
  for (int64_t t = 0; t < ctx.rows(op.experts); ++t)
    for (int64_t j = 0; j < op.experts.cols; ++j) places[op.experts.row<int32_t>(t)[j]].emplace_back(t, j);
  std::map<int32_t, int64_t> pieces;
  const auto give = [&](int32_t expert, int32_t rank, size_t first, size_t last) {
    ++pieces[rank];
    for (size_t i = first; i < last; ++i) {
      const auto [t, j] = places[expert][i];
      op.ranks.row<int32_t>(t)[j] = rank;
      op.own.row<int32_t>(t)[j] = rank == op.rank ? op.index[static_cast<size_t>(expert)] : -1;
    }
  };
  constexpr size_t kPiece = ExpertPlace::kPiece;
  for (const bool shared : {false, true}) {
    for (const auto& [expert, own] : places) {
      const std::vector<int32_t>& holders = op.holders[static_cast<size_t>(expert)];
      if ((holders.size() > 1) != shared) continue;
      for (size_t first = 0; first < own.size(); first += kPiece) {
        const int32_t rank = *std::ranges::min_element(holders, {}, [&](int32_t r) { return pieces[r]; });
        give(expert, rank, first, std::min(own.size(), first + kPiece));
      }
    }
  }
}

}  // namespace ingot::ref
