// The KV cache as ops see it. Layers with the same shape and window form a group and share page
// numbers; each layer has its own memory, laid out [page][kv head][slot][dim] for K and for V.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ingot {

struct KvGroupSpec {
  int kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  DType dtype = DType::kF32;
  int window = 0;    // a row sees the last `window` positions, itself included; 0: all
  int n_layers = 0;  // layers of the model in this group

  // Equal but for n_layers: such layers share a group.
  bool same_kind(const KvGroupSpec& o) const {
    return kv_heads == o.kv_heads && k_dim == o.k_dim && v_dim == o.v_dim && dtype == o.dtype && window == o.window;
  }
};

// One layer's place in the cache. `k` and `v` are set when the cache is bound to the graph.
struct KvLayer {
  int group = -1;
  int index = -1;  // among the group's layers
  int kv_heads = 0, k_dim = 0, v_dim = 0, page_rows = 0;
  DType dtype = DType::kF32;
  std::byte* k = nullptr;  // [pages][kv_heads][page_rows][k_dim]
  std::byte* v = nullptr;  // [pages][kv_heads][page_rows][v_dim]

  // The element where slot `slot` (page · page_rows + place) of head `head` begins.
  int64_t k_at(int64_t slot, int head) const { return at(slot, head, k_dim); }
  int64_t v_at(int64_t slot, int head) const { return at(slot, head, v_dim); }

 private:
  int64_t at(int64_t slot, int head, int dim) const {
    return ((slot / page_rows * kv_heads + head) * page_rows + slot % page_rows) * dim;
  }
};

}  // namespace ingot
