// The memory of the KV cache: for each KV group `pages` pages, each with the keys and values of all its layers. Memory
// that no seq has used costs nothing: pages are touched when rows are written. Since a page's layers lie together, huge
// pages waste at most one; they make attention over 576 keys 15 to 20 % faster (f32, 30 layers, two Skylake cores).
#pragma once

#include <optional>
#include <vector>

#include "graph/program.h"
#include "tensor/memory.h"

namespace ingot {

class KvStore {
 public:
  // `pages[g]` pages for group g of the program.
  KvStore(const Program& program, const std::vector<int>& pages, int page_rows);
  // The same in memory that somebody else owns, of kv_store_bytes(): a device's.
  KvStore(const Program& program, const std::vector<int>& pages, int page_rows, std::byte* memory);

  // Points the KV layers of all nodes to this memory.
  void bind(Program& program) const;

  // The content of a page, in all layers of its group, goes to another. REQUIRES: the memory is the host's.
  void copy_page(int group, int from, int to) const;
  // A page of all layers of a group.
  std::byte* page(int group, int page) const;
  int64_t page_bytes(int group) const { return layers_[static_cast<size_t>(group)][0].page_bytes; }

  int64_t bytes() const { return bytes_; }

 private:
  void place(const Program& program, const std::vector<int>& pages, std::byte* memory);

  struct Place {  // of page 0
    std::byte* k;
    std::byte* v;
    int64_t page_bytes;
  };
  Memory memory_;
  std::vector<std::vector<Place>> layers_;  // [group][index in the group]
  const int page_rows_;
  const bool host_;  // the CPU's own memory
  int64_t bytes_ = 0;
};

// Bytes of a cache with so many pages of each group.
int64_t kv_store_bytes(const Program& program, const std::vector<int>& pages, int page_rows);

// Another type of the KV cache, before it is bound.
void set_kv_dtype(Program& program, DType dtype);
// BF16 or F32 where all matrices of the body are; else `otherwise`.
DType kv_of_weights(const Graph& graph, DType otherwise);
// bf16 where this CPU multiplies it in attention (ops/attention/cpu/attention_kernels.h), for all heads of the graph.
DType kv_of_cpu(const Graph& graph, DType otherwise);

// Bytes of one page in all layers of a group.
int64_t kv_page_bytes(const KvGroupSpec& group, int page_rows);
// The same of a page of each group, in a cache of type `kv`; none: as the graph says.
int64_t kv_page_bytes(const Graph& graph, std::optional<DType> kv, int page_rows);

}  // namespace ingot
