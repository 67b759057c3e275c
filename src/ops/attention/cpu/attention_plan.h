// How the attention of a step is cut into work: units, which are some rows of one seq with some or all heads of one KV
// head, and items, which are a unit over some or all of its splits of the keys. No value depends on how.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/attention/attention.h"

namespace ingot::cpu {

inline constexpr int kQueries = 48;  // at most, rows × heads of a unit: enough to pay for widening a block of keys

struct AttentionUnit {
  int seq = 0, kv_head = 0;
  int first_row = 0, rows = 0;         // of the batch
  int first_head = 0, heads = 0;       // of the model
  int first_split = 0, end_split = 0;  // of the keys that its rows see
  int64_t parts = -1;                  // where its splits' results go, in floats of the shared memory; -1: one item
  int items = 0;

  int queries() const { return rows * heads; }
  int64_t splits() const { return end_split - first_split; }
};

struct AttentionItem {
  int unit = 0;
  int first_split = 0, end_split = 0;
  int64_t cost = 0;
};

// The positions [first, end) that a row sees.
struct Seen {
  int first, end;
};
inline Seen seen_by(const Attention& op, const Batch& batch, int row) {
  const int position = batch.position[static_cast<size_t>(row)];
  return {op.first_seen(position), position + 1};
}

// Floats of the results of one split: for each query a maximum, a sum and v_dim values.
inline int64_t part_floats(const Attention& op, int64_t queries) { return queries * (op.kv.v_dim + 2); }

struct AttentionPlan {
  std::vector<AttentionUnit> units;
  std::vector<AttentionItem> items;  // the longest first, so that the last ones are short
  int64_t cost = 0;                  // about the multiply-adds for each dimension, all items together

  const AttentionUnit& unit_of(int64_t item) const {
    return units[static_cast<size_t>(items[static_cast<size_t>(item)].unit)];
  }

  // `room`: floats of the shared memory for the results of splits.
  AttentionPlan(const Attention& op, const Batch& batch, int threads, int64_t room);

 private:
  void add_units(const Attention& op, const Batch& batch);
  void add_items(const Attention& op, int threads, int64_t room);
};

}  // namespace ingot::cpu
