// The pass behind shard() (shard.h): what it knows of each value while it writes one rank's part of a graph, and how
// each op is cut. Products are in shard_products.cpp, all else in shard.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/shard.h"

namespace ingot {

// Rows of a panel, and a cache line of floats: shares of products are multiples where there are enough.
inline constexpr int64_t kUnit = 16;

// How the columns of a value are shared: each rank's units, and the columns of one.
struct Cut {
  std::vector<ShardRange> units;
  int64_t unit = 1;

  bool operator==(const Cut&) const = default;
  ShardRange columns(int rank) const {
    const ShardRange& own = units[static_cast<size_t>(rank)];
    return {own.begin * unit, own.end * unit};
  }
  Cut of(int64_t other_unit) const { return {units, other_unit}; }
};

// A value of the whole graph on this rank: its own columns, all of them, or both; or its part of a sum.
struct State {
  std::optional<Cut> want;  // what the heads that read it are cut by
  int64_t border = 0;       // a product that is cut by its inputs reads it: multiples of this are its borders; 0: none
  std::optional<Cut> cut;   // of `local`, of each of its blocks
  int64_t blocks = 1;       // the places of experts
  Tensor local;             // this rank's columns as they are now, or all columns of its part of the sum
  bool partial = false;     // the value is the sum of `local` over all ranks
  bool full = false;        // all columns are there as they are now
};

class Sharder {
 public:
  Sharder(const Graph& graph, Weights& weights, int rank, const Sharding& how)
      : whole_(graph), weights_(weights), rank_(rank), ranks_(how.ranks), how_(how), states_(graph.values.size()) {}

  Graph run();

 private:
  void foresee_heads();
  void foresee_before_heads();
  void foresee_inputs();
  Cut kv_cut(const KvLayer& kv, int64_t unit) const;
  void want(const Tensor& t, const Cut& cut);

  bool is_whole(const Tensor& t) const { return t.offset == 0 && t.cols == value_of(t).cols; }
  const Value& value_of(const Tensor& t) const { return out_.values[static_cast<size_t>(t.value)]; }
  State& state_of(const Tensor& t) { return states_[static_cast<size_t>(t.value)]; }
  std::optional<Cut> wanted(const Tensor& t) { return is_whole(t) ? state_of(t).want : std::nullopt; }
  // The cut of a whole value that is not there as a whole.
  std::optional<Cut> parted(const Tensor& t) {
    return is_whole(t) && !state_of(t).full ? state_of(t).cut : std::nullopt;
  }

  bool partial(const Tensor& t) { return is_whole(t) && state_of(t).partial && !state_of(t).full; }

  void gather(int32_t value);
  void reduce(int32_t value);
  void need_full(const Tensor& t);
  Tensor local_of(const Tensor& t, const Cut& cut);
  Tensor new_local(const Tensor& t, const Cut& cut);
  void wrote_full(const Tensor& t);
  void wrote_local(const Tensor& t, const Cut& cut, const Tensor& local, int64_t blocks = 1);
  Tensor new_partial(const Tensor& t);
  template <class T>
  void emit(T op) {
    out_.nodes.push_back({.op = std::move(op), .label = label_, .made_by = {}});
  }

  // One for each op that is cut; any other runs on every rank.
  template <class T>
  void add(T op) {
    add_whole(std::move(op));
  }
  template <class T>
  void add_whole(T op);
  template <class T>
  void add_each_column(T op);
  void add(Activation op) { add_each_column(std::move(op)); }
  void add(Scale op) { add_each_column(std::move(op)); }
  void add(Softcap op) { add_each_column(std::move(op)); }
  void add(Glu op);
  void add(Add op);
  void add(RmsNorm op);
  void add(Rope op);
  void add(PositionScale op);
  void add(KvWrite op);
  void add(Attention op);
  void add(HeadLinear op);
  void add(Linear op);
  void add(RouterTopk op);
  void add(ExpertLinear op);
  void add_by_inputs(Linear op, const Cut& cut);
  void add_by_inputs(ExpertLinear op, const Cut& cut);
  void add_by_experts(ExpertLinear op);
  void add_node(const Node& node);
  std::optional<Cut> even_cut(const Weight& weight, const Tensor& out);
  bool cuts_inputs(const Tensor& x, const Weight& weight);

  const Graph& whole_;
  Weights& weights_;
  const int rank_, ranks_;
  const Sharding& how_;
  std::vector<State> states_;
  std::vector<char> routed_;  // values that a router reads: each rank makes them whole
  // Expert parallel: of the experts that a router chose (their value), who computes them.
  struct Routed {
    size_t layer = 0;
    Tensor own, ranks;
  };
  std::map<int32_t, Routed> routes_;
  Graph out_;
  std::string label_;
};

// As it is, on every rank.
template <class T>
void Sharder::add_whole(T op) {
  struct Reads : TensorVisitor {
    Sharder& sharder;
    explicit Reads(Sharder& s) : sharder(s) {}
    void in(Tensor& t) { sharder.need_full(t); }
    void inout(Tensor& t) { sharder.need_full(t); }
  };
  struct Writes : TensorVisitor {
    Sharder& sharder;
    explicit Writes(Sharder& s) : sharder(s) {}
    void out(Tensor& t) { sharder.wrote_full(t); }
    void inout(Tensor& t) { out(t); }
  };
  op.each(Reads(*this));
  op.each(Writes(*this));
  emit(std::move(op));
}

}  // namespace ingot
