#include "engine/kv_pages.h"

#include <algorithm>

#include "base/check.h"

namespace ingot {

KvPages::KvPages(const std::vector<int>& pages, int page_rows) : page_rows_(page_rows) {
  CHECK(page_rows > 0, "pages of {} rows", page_rows);
  for (const int n : pages) {
    Pool& pool = pools_.emplace_back();
    pool.refs.assign(static_cast<size_t>(n), 0);
    // Low pages are given first: memory that was touched once is touched again.
    for (int p = n - 1; p >= 0; --p) pool.free.push_back(p);
  }
}

bool KvPages::can_ever_fit(int rows) const {
  return std::ranges::all_of(pools_, [&](const Pool& pool) { return pages_for(rows) <= pool.refs.size(); });
}

bool KvPages::grow(SeqPages& seq, int rows) {
  CHECK(rows >= 0, "{} rows", rows);
  seq.groups.resize(pools_.size());
  const size_t wanted = pages_for(rows);
  for (size_t g = 0; g < pools_.size(); ++g) {
    const size_t held = seq.groups[g].size();
    if (wanted > held && wanted - held > pools_[g].free.size()) return false;
  }
  for (size_t g = 0; g < pools_.size(); ++g) {
    Pool& pool = pools_[g];
    while (seq.groups[g].size() < wanted) {
      const PageId page = pool.free.back();
      pool.free.pop_back();
      ++pool.refs[static_cast<size_t>(page)];
      seq.groups[g].push_back(page);
    }
  }
  return true;
}

void KvPages::truncate(SeqPages& seq, int rows) {
  CHECK(rows >= 0, "{} rows", rows);
  const size_t keep = pages_for(rows);
  for (size_t g = 0; g < seq.groups.size(); ++g) {
    Pool& pool = pools_[g];
    while (seq.groups[g].size() > keep) {
      const PageId page = seq.groups[g].back();
      seq.groups[g].pop_back();
      int& refs = pool.refs[static_cast<size_t>(page)];
      CHECK(refs > 0, "page {} of group {} is free already", page, g);
      if (--refs == 0) pool.free.push_back(page);
    }
  }
}

}  // namespace ingot
