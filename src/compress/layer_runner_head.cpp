// The end of a model run layer by layer: the final norm and the head; and caches of other types.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "compress/layer_runner.h"
#include "graph/traits.h"

namespace ingot {

void LayerRunner::open_head(const MatrixLookup& encoded) {
  const Border& last = borders_.back();
  Graph graph = part(last.out, model_.graph.outputs.at("logits"));
  first_ = graph.nodes.size();
  const std::vector<Node>& all = model_.graph.nodes;
  for (size_t n = last.end; n < all.size(); ++n) {
    if (n == model_.graph.head_begin) graph.head_begin = graph.nodes.size();
    graph.nodes.push_back(all[n]);
  }
  program_ = Program();
  replace_all(graph, encoded);
  compile_part(graph);
  add_inputs(-1, first_);
}

void LayerRunner::enter_head(int64_t rows, const float* hidden, std::span<const int32_t> which) {
  CHECK(!which.empty() && which.size() <= batch_.logit_row.size(), "logits of {} rows", which.size());
  enter(rows, hidden);
  std::ranges::copy(which, batch_.logit_row.begin());
  batch_.n_logits = static_cast<int>(which.size());
}

const Tensor& LayerRunner::logits(int64_t rows, const float* hidden, std::span<const int32_t> which) {
  enter_head(rows, hidden, which);
  run_nodes(1, program_.nodes.size(), rows, {});
  return program_.outputs.at("out");
}

void LayerRunner::read_head_inputs(int64_t rows, const float* hidden, const InputTap& tap) {
  CHECK(!taps_.empty(), "the head reads nothing");
  for (int64_t at = 0; at < rows; at += kHeadRows) {
    std::vector<int32_t> which(static_cast<size_t>(std::min<int64_t>(kHeadRows, rows - at)));
    std::iota(which.begin(), which.end(), static_cast<int32_t>(at));
    enter_head(rows, hidden, which);
    run_nodes(1, taps_.back().node, rows, tap);
  }
}

void LayerRunner::bind_kv() {
  const std::vector<int> pages(program_.kv_groups.size(), limits_.pages_per_seq());
  kv_ = std::make_unique<KvStore>(program_, pages, page_rows());
  kv_->bind(program_);
}

void LayerRunner::set_kv(DType dtype, const float* k_scales, const float* v_scales) {
  set_kv_dtype(program_, dtype);
  for (Node& node : program_.nodes) {
    each_kv(node.op, [&](KvLayer& kv) {
      kv.k_scales = k_scales;
      kv.v_scales = v_scales;
    });
  }
  bind_kv();
}

}  // namespace ingot
