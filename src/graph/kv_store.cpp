#include "graph/kv_store.h"

#include <cstring>

#include "base/check.h"

namespace ingot {
namespace {

int64_t layer_page_bytes(const KvGroupSpec& group, int dim, int page_rows) {
  return static_cast<int64_t>(group.kv_heads) * page_rows * dtype_row_bytes(group.dtype, dim);
}

}  // namespace

int64_t kv_page_bytes(const KvGroupSpec& group, int page_rows) {
  return group.n_layers *
         (layer_page_bytes(group, group.k_dim, page_rows) + layer_page_bytes(group, group.v_dim, page_rows));
}

KvStore::KvStore(const Graph& graph, const std::vector<int>& pages, int page_rows) : page_rows_(page_rows) {
  CHECK(page_rows % kKeyGroup == 0, "pages of {} rows are no multiple of {}", page_rows, kKeyGroup);
  CHECK(pages.size() == graph.kv_groups.size(), "{} page counts for {} groups", pages.size(), graph.kv_groups.size());
  int64_t total = 0;
  for (size_t g = 0; g < pages.size(); ++g) total += pages[g] * kv_page_bytes(graph.kv_groups[g], page_rows);
  memory_ = Memory::huge(total);
  std::byte* next = memory_.data();
  for (size_t g = 0; g < pages.size(); ++g) {
    const KvGroupSpec& group = graph.kv_groups[g];
    std::vector<Place>& places = layers_.emplace_back();
    std::byte* k = next;
    for (int i = 0; i < group.n_layers; ++i) {
      std::byte* v = k + layer_page_bytes(group, group.k_dim, page_rows);
      places.push_back({k, v, kv_page_bytes(group, page_rows)});
      k = v + layer_page_bytes(group, group.v_dim, page_rows);
    }
    next += pages[g] * kv_page_bytes(group, page_rows);
  }
}

void KvStore::copy_page(int group, int from, int to) const {
  const Place& first = layers_[static_cast<size_t>(group)][0];
  std::memcpy(first.k + to * first.page_bytes, first.k + from * first.page_bytes,
              static_cast<size_t>(first.page_bytes));
}

void KvStore::bind(Graph& graph) const {
  const auto bind_layer = [&](KvLayer& layer) {
    const Place& place = layers_[static_cast<size_t>(layer.group)][static_cast<size_t>(layer.index)];
    layer.k = place.k;
    layer.v = place.v;
    layer.page_bytes = place.page_bytes;
    layer.page_rows = page_rows_;
  };
  for (Node& node : graph.nodes) {
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.kv; }) bind_layer(op.kv);
          if constexpr (requires { op.heads.rope; }) {
            if (op.heads) bind_layer(op.heads.rope.kv);
          }
        },
        node.op);
  }
}

}  // namespace ingot
