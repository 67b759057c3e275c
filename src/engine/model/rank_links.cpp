#include "engine/model/rank_links.h"

#include "base/check.h"
#include "comm/comm_local.h"
#include "comm/world.h"

namespace ingot {
namespace {

// A stage takes as long as its rows need, and the next one has nothing to do but wait for it: of a process as long as
// there are signs of its life.
constexpr std::chrono::hours kRowsWait{24};

}  // namespace

RankCounts RankLinks::counts() const {
  RankCounts all;
  for (const auto* one : {&stage, &rows, &orders})
    if (*one) all.add((*one)->meter.counts());
  return all;
}

void RankLinks::begin_step(int64_t step) const {
  for (const auto* one : {&stage, &rows})
    if (*one) (*one)->step = step;
  if (stage) stage->deadline = step <= 1 ? Comm::kFirstStepWait : Comm::kStepWait;
}

// Those who wait for other stages first: what ends the waits of this stage would reach them at second hand.
void RankLinks::abort(const std::string& reason) const {
  for (const auto* one : {&orders, &rows, &stage})
    if (*one) (*one)->abort(reason);
}

std::vector<RankLinks> local_links(int tp, int pp, bool spins) {
  std::vector<RankLinks> links;
  for (int r = 0; r < tp * pp; ++r)
    links.push_back({.rank = r, .tp = tp, .pp = pp, .stage = {}, .rows = {}, .orders = {}});
  for (int first = 0; first < tp * pp && tp > 1; first += tp) {
    std::vector<std::unique_ptr<Comm>> stage = make_local_comms(tp, spins, first);
    for (int r = 0; r < tp; ++r) links[static_cast<size_t>(first + r)].stage = std::move(stage[static_cast<size_t>(r)]);
  }
  if (pp == 1) return links;
  std::vector<std::unique_ptr<Comm>> rows = make_local_comms(tp * pp, spins), orders = make_local_comms(tp * pp, spins);
  for (RankLinks& one : links) {
    one.rows = std::move(rows[static_cast<size_t>(one.rank)]);
    one.orders = std::move(orders[static_cast<size_t>(one.rank)]);
    one.rows->deadline = one.orders->deadline = kRowsWait;
  }
  return links;
}

RankLinks world_links(World& world, int tp, int pp) {
  CHECK(world.ranks() == tp * pp, "{} processes for {} x {} ranks", world.ranks(), tp, pp);
  RankLinks links{.rank = world.rank(), .tp = tp, .pp = pp, .stage = {}, .rows = {}, .orders = {}};
  const auto keep = [](MpiComm& end) { return std::shared_ptr<Comm>(&end, [](Comm*) {}); };  // the world's own
  if (tp > 1) links.stage = keep(world.part(links.rank / tp * tp, tp));
  if (pp == 1) return links;
  links.rows = keep(world.part(0, tp * pp));
  links.orders = keep(world.part(0, tp * pp));
  links.rows->deadline = links.orders->deadline = kRowsWait;
  return links;
}

}  // namespace ingot
