#include "graph/shard.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "graph/sharder.h"

namespace ingot {

void Sharder::want(const Tensor& t, const Cut& cut) {
  if (is_whole(t) && !state_of(t).want) state_of(t).want = cut;
}

Cut Sharder::kv_cut(const KvLayer& kv, int64_t unit) const {
  // The shares of KV heads are the same for every number of heads.
  return {share_heads(kv.kv_heads * ranks_, kv.kv_heads, ranks_).kv_heads, unit};
}

// Attention decides how q, k, v, what it gives, and what that is gated by are cut.
void Sharder::foresee_heads() {
  std::vector<std::optional<Cut>> made(whole_.values.size());
  const auto made_of = [&](const Tensor& t) -> std::optional<Cut>& { return made[static_cast<size_t>(t.value)]; };
  for (const Node& node : whole_.nodes) {
    if (const auto* write = std::get_if<KvWrite>(&node.op)) {
      want(write->k, kv_cut(write->kv, write->kv.k_dim));
      want(write->v, kv_cut(write->kv, write->kv.v_dim));
    } else if (const auto* attention = std::get_if<Attention>(&node.op)) {
      const Cut heads{share_heads(attention->heads, attention->kv.kv_heads, ranks_).heads, attention->kv.q_dim()};
      want(attention->q, heads);
      made_of(attention->out) = heads.of(attention->kv.v_dim);
    } else if (const auto* linear = std::get_if<HeadLinear>(&node.op)) {
      if (made_of(linear->x)) made_of(linear->out) = made_of(linear->x)->of(linear->outputs() + linear->tail);
    } else if (const auto* glu = std::get_if<Glu>(&node.op)) {
      if (made_of(glu->up) && glu->gate.cols == glu->up.cols) want(glu->gate, *made_of(glu->up));
    } else if (const auto* router = std::get_if<RouterTopk>(&node.op)) {
      routed_[static_cast<size_t>(router->logits.value)] = 1;
    }
  }
}

// What heads are made of is cut as they are.
void Sharder::foresee_before_heads() {
  for (size_t n = whole_.nodes.size(); n-- > 0;) {
    const Op& op = whole_.nodes[n].op;
    if (const auto* linear = std::get_if<HeadLinear>(&op)) {
      if (const auto cut = wanted(linear->out)) want(linear->x, cut->of(linear->weight.cols + linear->tail));
    } else if (const auto* norm = std::get_if<RmsNorm>(&op)) {
      const auto cut = wanted(norm->out);
      if (cut && cut->unit % norm->width == 0 && norm->width < norm->x.cols) want(norm->x, *cut);
    } else if (const auto* scale = std::get_if<Scale>(&op)) {
      if (const auto cut = wanted(scale->out)) want(scale->x, *cut);
    }
  }
}

// What a product reads that is cut by its inputs is cut where that may be.
void Sharder::foresee_inputs() {
  if (how_.form != ShardForm::kReduce) return;
  const auto set = [&](const Tensor& t, int64_t border) {
    if (border > 0 && is_whole(t)) state_of(t).border = std::lcm(border, kUnit);
  };
  for (size_t n = whole_.nodes.size(); n-- > 0;) {
    const Op& op = whole_.nodes[n].op;
    if (const auto* linear = std::get_if<Linear>(&op)) {
      if (!wanted(linear->parts[0].out)) set(linear->x, column_border(linear->parts[0].weight));
    } else if (const auto* experts = std::get_if<ExpertLinear>(&op)) {
      int64_t border = 1;
      for (const Weight& weight : experts->parts[0].weights) border = std::lcm(border, column_border(weight));
      if (experts->out) set(experts->x, border);
    } else if (const auto* glu = std::get_if<Glu>(&op)) {
      set(glu->up, state_of(glu->out).border);
      if (glu->gate.cols == glu->up.cols) set(glu->gate, state_of(glu->out).border);
    } else if (const auto* activation = std::get_if<Activation>(&op)) {
      set(activation->x, state_of(activation->out).border);
    }
  }
}

// Makes a value whole of what the ranks have of it.
void Sharder::gather(int32_t value) {
  State& state = states_[static_cast<size_t>(value)];
  CHECK(state.cut.has_value(), "value {} is nowhere", value);
  AllGather op;
  op.x = state.local;
  op.out = state.local;
  op.out.value = value;
  op.out.offset = 0;
  op.out.cols = op.out.stride = out_.values[static_cast<size_t>(value)].cols;
  op.blocks = state.blocks;
  for (int r = 0; r < ranks_; ++r) {
    const ShardRange own = state.cut->columns(r);
    op.begins.push_back(own.begin);
    op.counts.push_back(own.count());
  }
  const auto logits = whole_.outputs.find("logits");
  op.first_only = !how_.all_lead && logits != whole_.outputs.end() && logits->second.value == value;
  emit(std::move(op));
  state.full = true;
}

// Makes a value the sum of what the ranks have of it.
void Sharder::reduce(int32_t value) {
  State& state = states_[static_cast<size_t>(value)];
  AllReduce op;
  op.x = state.local;
  op.out = state.local;
  op.out.value = value;
  emit(std::move(op));
  state.full = true;
}

void Sharder::need_full(const Tensor& t) {
  const State& state = state_of(t);
  if (state.full) return;
  if (state.partial) return reduce(t.value);
  gather(t.value);
}

// This rank's columns of a tensor.
Tensor Sharder::local_of(const Tensor& t, const Cut& cut) {
  const State& state = state_of(t);
  if (is_whole(t) && state.cut == cut) return state.local;
  need_full(t);
  const ShardRange own = cut.columns(rank_);
  return columns(t, own.begin, own.count());
}

// Memory for this rank's columns of a value that is about to be written.
Tensor Sharder::new_local(const Tensor& t, const Cut& cut) {
  const Tensor local = out_.add_value(t.rows, cut.columns(rank_).count(), t.dtype);
  wrote_local(t, cut, local);
  return local;
}

void Sharder::wrote_full(const Tensor& t) {
  state_of(t).full = true;
  state_of(t).partial = false;
  state_of(t).cut.reset();
}

void Sharder::wrote_local(const Tensor& t, const Cut& cut, const Tensor& local, int64_t blocks) {
  State& state = state_of(t);
  CHECK(is_whole(t), "a part of value {}", t.value);
  state.cut = cut;
  state.blocks = blocks;
  state.local = local;
  state.partial = state.full = false;
}

// Memory for this rank's part of the sum that a value is.
Tensor Sharder::new_partial(const Tensor& t) {
  CHECK(is_whole(t), "a part of value {}", t.value);
  State& state = state_of(t);
  state.local = out_.add_value(t.rows, t.cols, t.dtype);
  state.cut.reset();
  state.partial = true;
  state.full = false;
  return state.local;
}

// An op of x and out that knows no columns.
template <class T>
void Sharder::add_each_column(T op) {
  const std::optional<Cut> cut = parted(op.x);
  if (!cut) return add_whole(std::move(op));
  op.x = local_of(op.x, *cut);
  op.out = new_local(op.out, *cut);
  emit(std::move(op));
}

void Sharder::add(Glu op) {
  std::optional<Cut> cut = parted(op.up);
  if (!cut) return add_whole(std::move(op));
  if (op.gate.cols == op.up.cols) {
    op.gate = local_of(op.gate, *cut);
  } else {
    need_full(op.gate);
  }
  op.up = local_of(op.up, *cut);
  op.out = new_local(op.out, *cut);
  emit(std::move(op));
}

void Sharder::add(Add op) {
  if (partial(op.a) && partial(op.b)) {
    // One sum over ranks in place of two.
    op.a = state_of(op.a).local;
    op.b = state_of(op.b).local;
    op.out = new_partial(op.out);
    return emit(std::move(op));
  }
  const std::optional<Cut> cut = parted(op.b) ? parted(op.b) : parted(op.a);
  if (!cut) return add_whole(std::move(op));
  op.a = local_of(op.a, *cut);
  op.b = local_of(op.b, *cut);
  op.out = new_local(op.out, *cut);
  emit(std::move(op));
}

void Sharder::add(RmsNorm op) {
  const std::optional<Cut> cut = parted(op.x);
  if (!cut || cut->unit % op.width != 0 || op.width == op.x.cols) return add_whole(std::move(op));
  add_each_column(std::move(op));
}

void Sharder::add(Rope op) {
  for (Tensor* t : {&op.q, &op.k}) {
    if (const std::optional<Cut> cut = wanted(*t)) {
      const Tensor whole = *t;
      *t = local_of(whole, *cut);
      wrote_local(whole, *cut, *t);
    } else {
      need_full(*t);
      wrote_full(*t);
    }
  }
  need_full(op.table);
  emit(std::move(op));
}

void Sharder::add(PositionScale op) {
  const std::optional<Cut> cut = wanted(op.x);
  if (!cut) return add_whole(std::move(op));
  const Tensor whole = op.x;
  op.x = local_of(whole, *cut);
  wrote_local(whole, *cut, op.x);
  emit(std::move(op));
}

// A rank's KV heads of a layer.
static void own_heads(KvLayer& kv, const ShardRange& own) {
  kv.kv_heads = static_cast<int>(own.count());
  if (kv.k_scales != nullptr) kv.k_scales += own.begin;
  if (kv.v_scales != nullptr) kv.v_scales += own.begin;
}

void Sharder::add(KvWrite op) {
  const Cut heads = kv_cut(op.kv, 1);
  op.k = local_of(op.k, heads.of(op.kv.k_dim));
  op.v = local_of(op.v, heads.of(op.kv.v_dim));
  own_heads(op.kv, heads.columns(rank_));
  emit(std::move(op));
}

void Sharder::add(Attention op) {
  const HeadShares shares = share_heads(op.heads, op.kv.kv_heads, ranks_);
  const Cut heads{shares.heads, 1};
  const ShardRange own = heads.columns(rank_);
  op.q = local_of(op.q, heads.of(op.kv.q_dim()));
  op.out = new_local(op.out, heads.of(op.kv.v_dim));
  op.heads = static_cast<int>(own.count());
  own_heads(op.kv, shares.kv_heads[static_cast<size_t>(rank_)]);
  if (op.sinks) op.sinks = weights_.values_of(op.sinks, own.begin, own.count());
  emit(std::move(op));
}

void Sharder::add_node(const Node& node) {
  label_ = node.label;
  std::visit([&](const auto& op) { add(op); }, node.op);
}

Graph Sharder::run() {
  out_.values = whole_.values;
  out_.outputs = whole_.outputs;
  out_.kv_groups = whole_.kv_groups;
  routed_.assign(whole_.values.size(), 0);
  for (size_t v = 0; v < states_.size(); ++v) states_[v].full = whole_.values[v].given;
  foresee_heads();
  foresee_before_heads();
  foresee_inputs();
  const auto gather_outputs = [&] {
    for (const auto& [name, t] : whole_.outputs)
      if (state_of(t).cut || state_of(t).partial) need_full(t);
  };
  for (size_t n = 0; n < whole_.nodes.size(); ++n) {
    if (n == whole_.head_begin) {
      // What the head reads of the body is there when the body has run.
      gather_outputs();
      if (const auto* rows = std::get_if<GatherRows>(&whole_.nodes[n].op)) need_full(rows->x);
      out_.head_begin = out_.nodes.size();
    }
    add_node(whole_.nodes[n]);
  }
  gather_outputs();
  if (whole_.head_begin == whole_.nodes.size()) out_.head_begin = out_.nodes.size();  // a stage without a head
  for (KvGroupSpec& group : out_.kv_groups)
    group.kv_heads = static_cast<int>(
        share_heads(group.kv_heads * ranks_, group.kv_heads, ranks_).kv_heads[static_cast<size_t>(rank_)].count());
  return std::move(out_);
}

HeadShares share_heads(int heads, int kv_heads, int ranks) {
  if (ranks > heads) throw Error("[tp] {} ranks for {} heads of attention: each needs one", ranks, heads);
  const int64_t group = heads / kv_heads;
  HeadShares shares;
  for (int64_t r = 0; r < ranks; ++r) {
    if (ranks <= kv_heads) {
      const ShardRange own{kv_heads * r / ranks, kv_heads * (r + 1) / ranks};
      shares.kv_heads.push_back(own);
      shares.heads.push_back({own.begin * group, own.end * group});
      continue;
    }
    const int64_t kv = r * kv_heads / ranks;
    // The ranks of this KV head.
    const int64_t first = (kv * ranks + kv_heads - 1) / kv_heads, last = ((kv + 1) * ranks + kv_heads - 1) / kv_heads;
    const int64_t mine = r - first, all = last - first;
    shares.kv_heads.push_back({kv, kv + 1});
    shares.heads.push_back({kv * group + group * mine / all, kv * group + group * (mine + 1) / all});
  }
  return shares;
}

std::vector<ShardRange> share_evenly(int64_t n, int64_t unit, int ranks) {
  if (n % unit != 0 || n / unit < ranks) return {};
  std::vector<ShardRange> ranges;
  for (int64_t r = 0; r < ranks; ++r)
    ranges.push_back({n / unit * r / ranks * unit, n / unit * (r + 1) / ranks * unit});
  return ranges;
}

Graph shard(const Graph& graph, Weights& weights, int rank, const Sharding& how) {
  CHECK(rank >= 0 && rank < how.ranks, "rank {} of {}", rank, how.ranks);
  return Sharder(graph, weights, rank, how).run();
}

}  // namespace ingot
