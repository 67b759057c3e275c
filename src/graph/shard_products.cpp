// How products are cut: by outputs, by inputs where the sums over ranks follow, or whole experts.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "graph/sharder.h"

namespace ingot {

int64_t column_border(const Weight& weight) {
  if (format_whole_rows(weight.format)) return 0;
  const bool scaled = weight.scale != nullptr && weight.scale_cols < weight.cols;
  return std::lcm(format_block(weight.format), scaled ? weight.scale_cols : 1);
}

void Sharder::add(HeadLinear op) {
  const std::optional<Cut> cut = wanted(op.x) ? wanted(op.x) : parted(op.x);
  const int64_t width = op.weight.cols + op.tail, n = op.outputs();
  if (!cut || cut->unit != width) return add_whole(std::move(op));
  const ShardRange own = cut->of(1).columns(rank_);
  op.x = local_of(op.x, *cut);
  op.out = new_local(op.out, cut->of(n + op.tail));
  op.weight = weights_.rows_of(op.weight, own.begin * n, own.count() * n);
  op.heads = static_cast<int>(own.count());
  emit(std::move(op));
}

// Of the outputs `out` of a weight.
std::optional<Cut> Sharder::even_cut(const Weight& weight, const Tensor& out) {
  const int64_t border = is_whole(out) ? state_of(out).border : 0;
  for (const int64_t unit : {border, kUnit, int64_t{1}}) {
    if (unit == 0) continue;
    std::vector<ShardRange> ranges = share_evenly(weight.rows, weight.head_rows > 0 ? weight.head_rows : unit, ranks_);
    if (!ranges.empty()) return Cut{std::move(ranges), 1};
  }
  return {};
}

// Whether each rank may multiply its own columns of x, as they are now, with those columns of the weight.
bool Sharder::cuts_inputs(const Tensor& x, const Weight& weight) {
  if (how_.form != ShardForm::kReduce || !is_whole(x) || state_of(x).full || !state_of(x).cut) return false;
  const int64_t border = column_border(weight);
  if (border == 0) return false;
  for (int r = 0; r < ranks_; ++r) {
    const ShardRange own = state_of(x).cut->columns(r);
    if (own.begin % border != 0 || (own.end % border != 0 && own.end != weight.cols)) return false;
  }
  return true;
}

void Sharder::add(Linear op) {
  Linear::Part& part = op.parts[0];
  CHECK(op.n_parts == 1 && !op.is_glu() && !op.residual && !op.input && !op.heads, "'{}' is fused", label_);
  std::optional<Cut> cut = wanted(part.out);
  const bool routed = routed_[static_cast<size_t>(part.out.value)] != 0;
  if (!cut && !routed && is_whole(part.out) && cuts_inputs(op.x, part.weight)) {
    const Cut inputs = *state_of(op.x).cut;
    return add_by_inputs(std::move(op), inputs);
  }
  if (!cut && !routed) cut = even_cut(part.weight, part.out);
  if (!cut) return add_whole(std::move(op));
  need_full(op.x);
  const ShardRange own = cut->columns(rank_);
  part.weight = weights_.rows_of(part.weight, own.begin, own.count());
  if (part.bias) part.bias = weights_.values_of(part.bias, own.begin, own.count());
  part.out = new_local(part.out, *cut);
  emit(std::move(op));
}

// A part of each sum on every rank; the first one's has the bias.
void Sharder::add_by_inputs(Linear op, const Cut& cut) {
  Linear::Part& part = op.parts[0];
  const ShardRange own = cut.columns(rank_);
  op.x = state_of(op.x).local;
  part.weight = weights_.columns_of(part.weight, own.begin, own.count());
  if (rank_ > 0) part.bias = {};
  part.out = new_partial(part.out);
  emit(std::move(op));
}

void Sharder::add_by_inputs(ExpertLinear op, const Cut& cut) {
  need_full(op.experts);
  if (op.weights) need_full(op.weights);
  ExpertLinear::Part& part = op.parts[0];
  const ShardRange own = cut.columns(rank_);
  op.x = state_of(op.x).local;
  for (Weight& weight : part.weights) weight = weights_.columns_of(weight, own.begin, own.count());
  if (rank_ > 0) part.bias = {};
  op.out = new_partial(op.out);
  emit(std::move(op));
}

// Who computes what a router chose.
void Sharder::add(RouterTopk op) {
  const Tensor experts = op.experts;
  const int64_t count = op.logits.cols;
  add_whole(std::move(op));
  if (how_.experts.empty()) return;
  const size_t layer = routes_.size();
  CHECK(layer < how_.experts.size(), "{} layers with experts", how_.experts.size());
  ExpertPlace place{.experts = experts,
                    .own = out_.add_value(experts.rows, experts.cols, DType::kI32),
                    .ranks = out_.add_value(experts.rows, experts.cols, DType::kI32),
                    .rank = rank_,
                    .holders = std::vector<std::vector<int32_t>>(static_cast<size_t>(count)),
                    .index = std::vector<int32_t>(static_cast<size_t>(count), -1)};
  const ExpertShares& shares = how_.experts[layer];
  for (size_t r = 0; r < shares.size(); ++r)
    for (const int32_t e : shares[r]) place.holders[static_cast<size_t>(e)].push_back(static_cast<int32_t>(r));
  const std::vector<int32_t>& mine = shares[static_cast<size_t>(rank_)];
  for (size_t i = 0; i < mine.size(); ++i) place.index[static_cast<size_t>(mine[i])] = static_cast<int32_t>(i);
  routes_[experts.value] = {.layer = layer, .own = place.own, .ranks = place.ranks};
  emit(std::move(place));
}

// Whole experts: of the places, which all ranks have room for, each writes those of its experts.
void Sharder::add_by_experts(ExpertLinear op) {
  const Routed& routed = routes_.at(op.experts.value);
  const std::vector<int32_t>& mine = how_.experts[routed.layer][static_cast<size_t>(rank_)];
  need_full(op.x);
  if (op.weights) need_full(op.weights);
  op.layer_count = op.count();
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    ExpertLinear::Part& part = op.parts[i];
    std::vector<Weight> own;
    for (const int32_t e : mine) own.push_back(part.weights[static_cast<size_t>(e)]);
    if (part.bias) part.bias = weights_.blocks_of(part.bias, part.weights[0].rows, mine);
    part.weights = std::move(own);
  }
  op.experts = routed.own;
  wrote_full(op.places);
  if (!op.out) return emit(std::move(op));
  if (how_.form == ShardForm::kReduce) {
    op.out = new_partial(op.out);
    return emit(std::move(op));
  }
  ExpertCombine combine{.places = op.places, .ranks = routed.ranks, .weights = op.weights, .out = op.out};
  op.weights = {};
  op.out = {};
  wrote_full(combine.out);
  emit(std::move(op));
  emit(std::move(combine));
}

// Each expert is cut by its outputs, so a row's places are blocks of which each rank has some columns.
void Sharder::add(ExpertLinear op) {
  if (!how_.experts.empty()) return add_by_experts(std::move(op));
  const auto cuts = [&](const Weight& weight) { return cuts_inputs(op.x, weight); };  // formats may differ
  if (op.out && op.n_parts == 1 && !op.scale && std::ranges::all_of(op.parts[0].weights, cuts)) {
    const Cut inputs = *state_of(op.x).cut;
    return add_by_inputs(std::move(op), inputs);
  }
  const bool sums = static_cast<bool>(op.out);
  const std::optional<Cut> cut = even_cut(op.parts[0].weights[0], sums ? op.out : op.places);
  if (!cut) return add_whole(std::move(op));
  need_full(op.x);
  need_full(op.experts);
  if (op.weights) need_full(op.weights);
  const ShardRange own = cut->columns(rank_);
  const int64_t count = op.count(), used = op.used();
  for (size_t i = 0; i < static_cast<size_t>(op.n_parts); ++i) {
    for (Weight& weight : op.parts[i].weights) weight = weights_.rows_of(weight, own.begin, own.count());
    if (op.parts[i].bias) op.parts[i].bias = weights_.values_of(op.parts[i].bias, own.begin, own.count(), count);
  }
  const Tensor places = op.places;
  op.places = out_.add_value(places.rows, used * own.count(), places.dtype);
  if (sums)
    op.out = new_local(op.out, *cut);
  else
    wrote_local(places, *cut, op.places, used);
  emit(std::move(op));
}

}  // namespace ingot
