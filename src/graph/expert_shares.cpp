#include "graph/expert_shares.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "graph/graph.h"

namespace ingot {
namespace {

// How often each expert is there: as many copies as ranks beside one of each, each of the expert that has most to do
// for one of its copies.
std::vector<int> copies_of(std::span<const int64_t> uses, int ranks) {
  std::vector<int> copies(uses.size(), 1);
  const auto load = [&](size_t e) { return static_cast<double>(uses[e]) / copies[e]; };
  for (int more = 0; more < ranks; ++more) {
    size_t busiest = uses.size();
    for (size_t e = 0; e < uses.size(); ++e)
      if (copies[e] < ranks && (busiest == uses.size() || load(e) > load(busiest))) busiest = e;
    if (busiest == uses.size()) break;
    ++copies[busiest];
  }
  return copies;
}

}  // namespace

ExpertShares share_experts(int64_t count, int ranks, std::span<const int64_t> uses) {
  if (ranks > count) throw Error("[ep] {} ranks for {} experts: each needs one", ranks, count);
  ExpertShares shares(static_cast<size_t>(ranks));
  if (uses.empty()) {
    for (int64_t e = 0; e < count; ++e) shares[static_cast<size_t>(e % ranks)].push_back(static_cast<int32_t>(e));
    return shares;
  }
  CHECK(static_cast<int64_t>(uses.size()) == count, "{} uses of {} experts", uses.size(), count);
  const std::vector<int> copies = copies_of(uses, ranks);
  std::vector<int32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0);
  const auto load = [&](int32_t e) {
    return static_cast<double>(uses[static_cast<size_t>(e)]) / copies[static_cast<size_t>(e)];
  };
  // Those of several copies first: a rank has at most one of each.
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    const bool many_a = copies[static_cast<size_t>(a)] > 1, many_b = copies[static_cast<size_t>(b)] > 1;
    return many_a != many_b ? many_a : load(a) > load(b);
  });
  const size_t most = static_cast<size_t>((count + ranks - 1) / ranks) + 1;
  std::vector<double> busy(shares.size(), 0);
  for (const int32_t e : order) {
    for (int copy = 0; copy < copies[static_cast<size_t>(e)]; ++copy) {
      size_t best = shares.size();
      for (size_t r = 0; r < shares.size(); ++r) {
        if (shares[r].size() >= most || std::ranges::find(shares[r], e) != shares[r].end()) continue;
        if (best == shares.size() || busy[r] < busy[best] ||
            (busy[r] == busy[best] && shares[r].size() < shares[best].size()))
          best = r;
      }
      CHECK(best < shares.size(), "no rank has room for expert {}", e);
      shares[best].push_back(e);
      busy[best] += load(e);
    }
  }
  for (std::vector<int32_t>& own : shares) std::ranges::sort(own);
  return shares;
}

std::vector<ExpertShares> share_layers(const Graph& graph, int ranks, std::span<const std::vector<int64_t>> uses) {
  std::vector<ExpertShares> layers;
  for (const Node& node : graph.nodes) {
    const auto* router = std::get_if<RouterTopk>(&node.op);
    if (router == nullptr) continue;
    const size_t layer = layers.size();
    const int64_t count = router->logits.cols;
    if (!uses.empty() && (layer >= uses.size() || static_cast<int64_t>(uses[layer].size()) != count))
      throw Error("[ep] the uses of experts are another model's: layer {} with experts has {}", layer, count);
    layers.push_back(share_experts(count, ranks, uses.empty() ? std::span<const int64_t>() : uses[layer]));
  }
  return layers;
}

}  // namespace ingot
