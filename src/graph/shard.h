// Tensor parallel: one rank's part of a graph. Two forms:
//   gather  every product is cut by its outputs, so each value is the same sum in the same order as without ranks and
//   no
//           block of a weight's format is cut; attention is cut by heads, and `all_gather` stands where an op reads
//           columns that other ranks have made. The logits are bit for bit those of one rank.
//   reduce  a product whose inputs are cut already is cut by them too, at the borders of its format's blocks, and
//           `all_reduce` makes its sums, in the order of ranks: fewer and smaller exchanges, and sums in another order
//           than one rank's. What cannot be cut so is as in the gather form.
// Expert parallel: each rank has whole experts, and all else is cut as above. In the gather form their results are
// brought together and added in the order in which a row has them: bit for bit those of one rank too.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/expert_shares.h"
#include "graph/graph.h"
#include "weights/weights.h"

namespace ingot {

// A half-open range of columns, rows of a weight, or heads.
struct ShardRange {
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

// The heads of each rank. Several KV heads: a rank has whole groups, uneven where they do not divide. More ranks than
// KV heads: each KV head is repeated on some ranks, which share its group.
struct HeadShares {
  std::vector<ShardRange> heads, kv_heads;  // [ranks]
};
// Throws Error where there are more ranks than heads.
HeadShares share_heads(int heads, int kv_heads, int ranks);

// `n` columns or rows as evenly as multiples of `unit` allow. Empty where some rank would have none.
std::vector<ShardRange> share_evenly(int64_t n, int64_t unit, int ranks);

enum class ShardForm : uint8_t { kGather, kReduce };

struct Sharding {
  int ranks = 1;
  ShardForm form = ShardForm::kGather;
  // Expert parallel: of each layer with experts, in order. Empty: each expert is cut.
  std::vector<ExpertShares> experts = {};
  bool all_lead = false;  // every rank gets the logits, as rank 0 does
};

// The part of rank `rank` of a graph as a model wrote it, before fuse(). Weights of the part lie in those of `graph`,
// but for those that are cut by their inputs: copies. Throws Error where the graph cannot be cut for so many.
Graph shard(const Graph& graph, Weights& weights, int rank, const Sharding& how);

// Columns of a weight may be cut at multiples of this; 0: nowhere.
int64_t column_border(const Weight& weight);

}  // namespace ingot
