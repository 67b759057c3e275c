#include "graph/kv_store.h"

#include <cstring>

#include "base/check.h"
#include "base/checked_size.h"
#include "graph/traits.h"
#include "ops/kv_cache.h"

namespace ingot {
namespace {

// A model's file names the numbers that are multiplied here, up to 2^73 together.
int64_t layer_page_bytes(const KvGroupSpec& group, int64_t row_bytes, int page_rows) {
  const CheckedSize heads(group.kv_heads, "[kv] bytes of a page");
  return (heads * page_rows * row_bytes).as_int64();
}

template <class F>
void each_layer(Program& program, F&& f) {
  for (Node& node : program.nodes) each_kv(node.op, f);
}

}  // namespace

int64_t kv_page_bytes(const KvGroupSpec& group, int page_rows) {
  const CheckedSize k(layer_page_bytes(group, group.k_row_bytes(), page_rows), "[kv] bytes of a page");
  return ((k + layer_page_bytes(group, group.v_row_bytes(), page_rows)) * group.n_layers).as_int64();
}

int64_t kv_page_bytes(const Graph& graph, std::optional<DType> kv, int page_rows) {
  CheckedSize bytes(0, "[kv] bytes of a page");
  for (KvGroupSpec group : graph.kv_groups) {
    group.dtype = kv.value_or(group.dtype);
    bytes += kv_page_bytes(group, page_rows);
  }
  return bytes.as_int64();
}

int64_t kv_store_bytes(const Program& program, const std::vector<int>& pages, int page_rows) {
  CheckedSize total(0, "[kv] bytes of the cache");
  for (size_t g = 0; g < pages.size(); ++g) {
    total += CheckedSize(pages[g]) * kv_page_bytes(program.kv_groups[g], page_rows);
  }
  return total.as_int64();
}

KvStore::KvStore(const Program& program, const std::vector<int>& pages, int page_rows)
    : memory_(Memory::huge(kv_store_bytes(program, pages, page_rows))), page_rows_(page_rows), host_(true) {
  place(program, pages, memory_.data());
}

KvStore::KvStore(const Program& program, const std::vector<int>& pages, int page_rows, std::byte* memory)
    : page_rows_(page_rows), host_(false) {
  place(program, pages, memory);
}

void KvStore::place(const Program& program, const std::vector<int>& pages, std::byte* memory) {
  CHECK(page_rows_ % kKeyGroup == 0, "pages of {} rows are no multiple of {}", page_rows_, kKeyGroup);
  CHECK(pages.size() == program.kv_groups.size(), "{} page counts for {} groups", pages.size(),
        program.kv_groups.size());
  bytes_ = kv_store_bytes(program, pages, page_rows_);
  std::byte* next = memory;
  for (size_t g = 0; g < pages.size(); ++g) {
    const KvGroupSpec& group = program.kv_groups[g];
    std::vector<Place>& places = layers_.emplace_back();
    std::byte* k = next;
    for (int i = 0; i < group.n_layers; ++i) {
      std::byte* v = k + layer_page_bytes(group, group.k_row_bytes(), page_rows_);
      places.push_back({k, v, kv_page_bytes(group, page_rows_)});
      k = v + layer_page_bytes(group, group.v_row_bytes(), page_rows_);
    }
    next += pages[g] * kv_page_bytes(group, page_rows_);
  }
}

std::byte* KvStore::page(int group, int page) const {
  const Place& first = layers_[static_cast<size_t>(group)][0];
  return first.k + page * first.page_bytes;
}

void KvStore::copy_page(int group, int from, int to) const {
  if (layers_[static_cast<size_t>(group)].empty()) return;  // a stage may have none of a group's layers
  std::memcpy(page(group, to), page(group, from), static_cast<size_t>(page_bytes(group)));
}

void KvStore::bind(Program& program) const {
  each_layer(program, [&](KvLayer& layer) {
    const Place& place = layers_[static_cast<size_t>(layer.group)][static_cast<size_t>(layer.index)];
    layer.k = place.k;
    layer.v = place.v;
    layer.page_bytes = place.page_bytes;
    layer.page_rows = page_rows_;
    layer.pairs =
        host_ && !layer.latent && layer.dtype == DType::kBF16 && cpu::multiplies_pairs(layer.k_dim, layer.v_dim);
  });
}

void set_kv_dtype(Program& program, DType dtype) {
  for (KvGroupSpec& group : program.kv_groups) group.dtype = dtype;
  each_layer(program, [&](KvLayer& layer) { layer.dtype = dtype; });
}

DType kv_of_weights(const Graph& graph, DType otherwise) {
  int64_t bf16 = 0, f32 = 0, all = 0;  // values of each
  for (size_t n = 0; n < graph.head_begin; ++n) {
    each_matrix(graph.nodes[n].op, [&](const Weight& weight, const PackedWeight*) {
      const int64_t values = weight.rows * weight.cols;
      all += values;
      if (weight.format == Format::kBF16) bf16 += values;
      if (weight.format == Format::kF32) f32 += values;
    });
  }
  // Routers are float32 in every model.
  if (f32 == all) return DType::kF32;
  return bf16 + f32 == all && f32 < all / 8 ? DType::kBF16 : otherwise;
}

DType kv_of_cpu(const Graph& graph, DType otherwise) {
  bool fits = true;
  for (const KvGroupSpec& group : graph.kv_groups)
    fits &= !group.latent && cpu::multiplies_pairs(group.k_dim, group.v_dim);
  return fits ? DType::kBF16 : otherwise;
}

}  // namespace ingot
