#include "engine/cache/kv_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ingot {

KvPages::KvPages(const std::vector<PageGroup>& groups, int page_rows) : page_rows_(page_rows) {
  CHECK(page_rows > 0, "pages of {} rows", page_rows);
  for (const PageGroup& group : groups) {
    Pool& p = pools_.emplace_back();
    p.window = group.window;
    p.eager = group.eager > 0 ? group.eager : group.pages;
    p.pages.resize(static_cast<size_t>(group.pages));
    p.free.reserve(p.pages.size());  // giving back never allocates
    // Low pages are given first: memory that was touched once is touched again.
    for (int i = group.pages - 1; i >= 0; --i) p.free.push_back(i);
  }
}

int KvPages::most_pages(int group, int rows) const {
  const int w = pool(group).window;
  // A window lies across one page more than its rows fill, and the row being written may begin another.
  return w == 0 ? pages_for(rows) : std::min(pages_for(rows), pages_for(w) + 2);
}

bool KvPages::can_ever_fit(int rows) const {
  for (int g = 0; g < n_groups(); ++g) {
    if (most_pages(g, rows) > total_pages(g)) return false;
  }
  return true;
}

void KvPages::cache(Pool& p, PageId page) {
  Page& entry = p.pages[static_cast<size_t>(page)];
  Kept& kept = p.kept[static_cast<size_t>(entry.owner)];
  entry.before = kept.newest;
  entry.after = kNoPage;
  (kept.newest == kNoPage ? kept.oldest : p.pages[static_cast<size_t>(kept.newest)].after) = page;
  kept.newest = page;
  ++kept.n;
  ++p.n_cached;
}

void KvPages::uncache(Pool& p, PageId page) {
  Page& entry = p.pages[static_cast<size_t>(page)];
  Kept& kept = p.kept[static_cast<size_t>(entry.owner)];
  (entry.before == kNoPage ? kept.oldest : p.pages[static_cast<size_t>(entry.before)].after) = entry.after;
  (entry.after == kNoPage ? kept.newest : p.pages[static_cast<size_t>(entry.after)].before) = entry.before;
  entry.before = entry.after = kNoPage;
  --kept.n;
  --p.n_cached;
}

// The cached page that goes first. REQUIRES: there is one.
PageId KvPages::least_worth(const Pool& p) const {
  size_t most = 0;
  for (size_t o = 1; o < p.kept.size(); ++o) {
    if (p.kept[o].n / weights_[o] > p.kept[most].n / weights_[most]) most = o;
  }
  return p.kept[most].oldest;
}

// REQUIRES: available(group) > 0.
PageId KvPages::take(int group) {
  Pool& p = pool(group);
  PageId page = kNoPage;
  // Freed pages lie behind those that were never taken, so the last tells whether memory that is there is left.
  const bool spare = !p.free.empty() && (p.free.back() < p.unused || p.unused < p.eager || p.n_cached == 0);
  if (spare) {
    page = p.free.back();
    p.free.pop_back();
    p.unused = std::max(p.unused, page + 1);
  } else {
    CHECK(p.n_cached > 0, "group {} has no page left", group);
    page = least_worth(p);
    uncache(p, page);
    const int32_t address = std::exchange(at(group, page).address, -1);
    ++n_evicted_;
    if (on_evict) on_evict(group, page, address);
  }
  at(group, page).refs = 1;
  return page;
}

void KvPages::hold(int group, PageId page) {
  Page& entry = at(group, page);
  CHECK(entry.refs > 0 || entry.address >= 0, "page {} of group {} has no content", page, group);
  if (entry.refs++ == 0) uncache(pool(group), page);
}

void KvPages::drop(int group, PageId page) {
  Page& entry = at(group, page);
  CHECK(entry.refs > 0, "page {} of group {} is free already", page, group);
  if (--entry.refs > 0) return;
  if (entry.address >= 0) {
    cache(pool(group), page);
  } else {
    pool(group).free.push_back(page);
  }
}

void KvPages::set_address(int group, PageId page, int32_t address, int owner) {
  Page& entry = at(group, page);
  CHECK(entry.refs > 0, "page {} of group {} is not held", page, group);
  entry.address = address;
  entry.owner = owner;
}

void KvPages::set_owner(int owner, double weight) {
  const size_t all = static_cast<size_t>(owner) + 1;
  if (weights_.size() < all) weights_.resize(all, 1);  // first: where memory runs out in between, nothing is amiss
  for (Pool& p : pools_) {
    if (p.kept.size() < all) p.kept.resize(all);
  }
  weights_[all - 1] = weight;
}

void KvPages::forget(int group, PageId page) {
  Page& entry = at(group, page);
  CHECK(entry.refs > 0, "page {} of group {} is not held", page, group);
  entry.address = -1;
}

// Whether position `from` lies within a page that others see too: writing there needs a page of one's own.
bool KvPages::shared_tail(int group, const SeqPages& seq, int from) const {
  const std::vector<PageId>& held = seq.groups[static_cast<size_t>(group)];
  const auto i = static_cast<size_t>(from / page_rows_);
  if (from % page_rows_ == 0 || i >= held.size() || held[i] == kNoPage) return false;
  const Page& entry = at(group, held[i]);
  return entry.refs > 1 || entry.address >= 0;
}

int KvPages::missing(int group, const SeqPages& seq, int from, int rows) const {
  const int held = seq.groups.empty() ? 0 : static_cast<int>(seq.groups[static_cast<size_t>(group)].size());
  const bool copy = !seq.groups.empty() && shared_tail(group, seq, from);
  return std::max(0, pages_for(rows) - held) + (copy ? 1 : 0);
}

int KvPages::rows_that_fit(const SeqPages& seq, int from, int want, std::span<const int> kept) const {
  int fit = want;
  for (int g = 0; g < n_groups() && fit > 0; ++g) {
    const int held = seq.groups.empty() ? 0 : static_cast<int>(seq.groups[static_cast<size_t>(g)].size());
    const int left = std::max(0, available(g) - (kept.empty() ? 0 : kept[static_cast<size_t>(g)]));
    const int spare = left - (!seq.groups.empty() && shared_tail(g, seq, from) ? 1 : 0);
    const int64_t room = (static_cast<int64_t>(held) + spare) * page_rows_ - from;
    fit = spare < 0 ? 0 : static_cast<int>(std::clamp<int64_t>(room, 0, fit));
  }
  return fit;
}

void KvPages::set_aside(const SeqPages& seq) {
  for (size_t g = 0; g < seq.groups.size(); ++g) {
    Pool& p = pools_[g];
    for (const PageId page : seq.groups[g]) {
      if (page == kNoPage) continue;
      Page& entry = p.pages[static_cast<size_t>(page)];
      p.n_aside += ++entry.aside == entry.refs;
    }
  }
}

void KvPages::put_back(const SeqPages& seq) {
  for (size_t g = 0; g < seq.groups.size(); ++g) {
    Pool& p = pools_[g];
    for (const PageId page : seq.groups[g]) {
      if (page == kNoPage) continue;
      Page& entry = p.pages[static_cast<size_t>(page)];
      p.n_aside -= entry.aside-- == entry.refs;
    }
  }
}

void KvPages::reserve(SeqPages& seq, int rows) const {
  seq.slid.resize(pools_.size());  // before the groups: where memory runs out in between, nothing is amiss
  seq.groups.resize(pools_.size());
  for (std::vector<PageId>& held : seq.groups) held.reserve(static_cast<size_t>(pages_for(rows)));
}

bool KvPages::grow(SeqPages& seq, int from, int rows, std::vector<PageCopy>& copies) {
  CHECK(from >= 0 && from < rows, "rows {} to {}", from, rows);
  for (int g = 0; g < n_groups(); ++g) {
    if (missing(g, seq, from, rows) > available(g)) return false;
  }
  const auto wanted = static_cast<size_t>(pages_for(rows));
  copies.reserve(copies.size() + pools_.size());
  reserve(seq, rows);  // from here on nothing can fail
  for (int g = 0; g < n_groups(); ++g) {
    std::vector<PageId>& held = seq.groups[static_cast<size_t>(g)];
    if (shared_tail(g, seq, from)) {
      PageId& tail = held[static_cast<size_t>(from / page_rows_)];
      const PageId own = take(g);
      copies.push_back({g, tail, own});
      drop(g, tail);
      tail = own;
    }
    while (held.size() < wanted) held.push_back(take(g));
  }
  return true;
}

void KvPages::truncate(SeqPages& seq, int rows) {
  CHECK(rows >= 0, "{} rows", rows);
  const auto keep = static_cast<size_t>(pages_for(rows));
  for (int g = 0; g < static_cast<int>(seq.groups.size()); ++g) {
    std::vector<PageId>& held = seq.groups[static_cast<size_t>(g)];
    // The last page first: of what stays cached, the end of a text is given away before its beginning.
    for (; held.size() > keep; held.pop_back()) {
      if (held.back() != kNoPage) drop(g, held.back());
    }
    int& slid = seq.slid[static_cast<size_t>(g)];
    slid = std::min(slid, static_cast<int>(held.size()));
  }
}

void KvPages::slide(SeqPages& seq, int from) {
  for (int g = 0; g < static_cast<int>(seq.groups.size()); ++g) {
    std::vector<PageId>& held = seq.groups[static_cast<size_t>(g)];
    int& slid = seq.slid[static_cast<size_t>(g)];
    const int end = std::min(first_page(g, from), static_cast<int>(held.size()));
    for (; slid < end; ++slid) {
      PageId& page = held[static_cast<size_t>(slid)];
      if (page != kNoPage) drop(g, page);
      page = kNoPage;
    }
  }
}

void KvPages::share(const SeqPages& from, SeqPages& to, int rows) {
  CHECK(to.groups.empty() || to.groups[0].empty(), "the seq holds pages");
  reserve(to, rows);  // from here on nothing can fail
  to.slid = from.slid;
  for (int g = 0; g < n_groups(); ++g) {
    const std::vector<PageId>& pages = from.groups[static_cast<size_t>(g)];
    to.groups[static_cast<size_t>(g)].assign(pages.begin(), pages.begin() + pages_for(rows));
    for (const PageId page : to.groups[static_cast<size_t>(g)]) {
      if (page != kNoPage) hold(g, page);
    }
  }
}

}  // namespace ingot
