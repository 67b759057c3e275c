// Pages of the KV cache: allocation and sharing. Knows nothing of tensors or models.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot {

using PageId = int32_t;

// The pages that one seq holds: for each KV group, page i has the positions [i · page_rows, (i + 1) · page_rows).
struct SeqPages {
  std::vector<std::vector<PageId>> groups;
};

class KvPages {
 public:
  // `pages[g]` pages in group g.
  KvPages(const std::vector<int>& pages, int page_rows);

  // Gives `seq` pages in every group until it has room for `rows` positions. All or nothing: on false no page
  // changed hands.
  bool grow(SeqPages& seq, int rows);
  // Takes back what is not needed for the first `rows` positions.
  void truncate(SeqPages& seq, int rows);
  // Takes back everything.
  void release(SeqPages& seq) { truncate(seq, 0); }

  // Whether a seq of `rows` positions could ever have its pages, were it alone.
  bool can_ever_fit(int rows) const;

  int free_pages(int group) const { return static_cast<int>(pools_[static_cast<size_t>(group)].free.size()); }
  int total_pages(int group) const { return static_cast<int>(pools_[static_cast<size_t>(group)].refs.size()); }
  int page_rows() const { return page_rows_; }
  int n_groups() const { return static_cast<int>(pools_.size()); }
  int refs(int group, PageId page) const { return pools_[static_cast<size_t>(group)].refs[static_cast<size_t>(page)]; }

 private:
  struct Pool {
    std::vector<int> refs;     // [pages] how many seqs hold the page
    std::vector<PageId> free;  // exactly the pages with refs 0, the next to give at the back
  };
  size_t pages_for(int rows) const {
    return (static_cast<size_t>(rows) + static_cast<size_t>(page_rows_) - 1) / static_cast<size_t>(page_rows_);
  }

  std::vector<Pool> pools_;
  const int page_rows_;
};

}  // namespace ingot
