#include "ops/attention/cpu/attention_plan.h"

namespace ingot::cpu {
namespace {

constexpr int kOpening = 6;  // reading and widening a key costs about as much as so many queries that use it

int64_t cost_of(const AttentionUnit& unit, int64_t splits) {
  return splits * Attention::kSplit * (unit.queries() + kOpening);
}

}  // namespace

AttentionPlan::AttentionPlan(const Attention& op, const Batch& batch, int threads, int64_t room) {
  units.reserve(static_cast<size_t>(batch.n_seqs) * static_cast<size_t>(op.kv.kv_heads));
  items.reserve(units.capacity());
  add_units(op, batch);
  add_items(op, threads, room);
}

void AttentionPlan::add_units(const Attention& op, const Batch& batch) {
  const int shared = op.heads / op.kv.kv_heads;
  const int heads = std::min(shared, kQueries);
  const int rows = kQueries / heads;
  for (int seq = 0; seq < batch.n_seqs; ++seq) {
    const int end_row = batch.q_start[static_cast<size_t>(seq) + 1];
    for (int row = batch.q_start[static_cast<size_t>(seq)]; row < end_row; row += rows) {
      AttentionUnit unit{.seq = seq, .first_row = row, .rows = std::min(rows, end_row - row)};
      Seen seen = seen_by(op, batch, row);
      for (int r = 1; r < unit.rows; ++r) {
        const Seen other = seen_by(op, batch, row + r);
        seen = {std::min(seen.first, other.first), std::max(seen.end, other.end)};
      }
      unit.first_split = seen.first / Attention::kSplit;
      unit.end_split = (seen.end + Attention::kSplit - 1) / Attention::kSplit;
      for (unit.kv_head = 0; unit.kv_head < op.kv.kv_heads; ++unit.kv_head) {
        for (int first = 0; first < shared; first += heads) {
          unit.first_head = unit.kv_head * shared + first;
          unit.heads = std::min(heads, shared - first);
          units.push_back(unit);
          cost += cost_of(unit, unit.splits());
        }
      }
    }
  }
}

void AttentionPlan::add_items(const Attention& op, int threads, int64_t room) {
  const int64_t wanted = cost / (4 * threads);  // of an item: four for each thread even out
  int64_t used = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    AttentionUnit& unit = units[u];
    const int64_t one = cost_of(unit, 1);
    int64_t splits = std::clamp<int64_t>(wanted / one, 1, unit.splits());
    const int64_t floats = unit.splits() * part_floats(op, unit.queries());
    if (threads == 1 || used + floats > room) splits = unit.splits();
    if (splits < unit.splits()) {
      unit.parts = used;
      used += floats;
    }
    for (int split = unit.first_split; split < unit.end_split; split += static_cast<int>(splits)) {
      const int end = static_cast<int>(std::min<int64_t>(split + splits, unit.end_split));
      items.push_back({static_cast<int>(u), split, end, one * (end - split)});
      ++unit.items;
    }
  }
  // Seqs of about one length are in order already, and sorting takes memory of its own.
  const auto longer = [](const AttentionItem& a, const AttentionItem& b) { return a.cost > b.cost; };
  if (items.size() > static_cast<size_t>(threads) && !std::is_sorted(items.begin(), items.end(), longer))
    std::stable_sort(items.begin(), items.end(), longer);
}

}  // namespace ingot::cpu
