// The memory of the KV cache: for each KV group `pages` pages, each with the keys and values of all its layers. Memory
// that no seq has used costs nothing: pages are touched when rows are written. Since a page's layers lie together, huge
// pages waste at most one; they make attention over 576 keys 15 to 20 % faster (f32, 30 layers, two Skylake cores).
#pragma once

#include <vector>

#include "graph/graph.h"
#include "tensor/memory.h"

namespace ingot {

class KvStore {
 public:
  // `pages[g]` pages for group g of the graph.
  KvStore(const Graph& graph, const std::vector<int>& pages, int page_rows);

  // Points the KV layers of all nodes to this memory.
  void bind(Graph& graph) const;

  // The content of a page, in all layers of its group, goes to another.
  void copy_page(int group, int from, int to) const;

  int64_t bytes() const { return memory_.bytes(); }

 private:
  struct Place {  // of page 0
    std::byte* k;
    std::byte* v;
    int64_t page_bytes;
  };
  Memory memory_;
  std::vector<std::vector<Place>> layers_;  // [group][index in the group]
  const int page_rows_;
};

// Bytes of one page in all layers of a group.
int64_t kv_page_bytes(const KvGroupSpec& group, int page_rows);

}  // namespace ingot
