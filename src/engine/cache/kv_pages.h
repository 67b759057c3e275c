// Pages of the KV cache: allocation, sharing, eviction. Knows nothing of tensors, tokens or models.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ingot {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

struct PageGroup {
  int pages = 0;
  int window = 0;  // rows see the last `window` positions; 0: all
  // Once so many pages have been in use, one that nobody holds gives up its content before a page that was never used
  // is taken, whose memory is not there yet: the cache grows further only by what seqs hold at once. 0: all may be
  // used.
  int eager = 0;
};

// The pages that one seq holds: for each KV group, page i has the positions [i · page_rows, (i + 1) · page_rows);
// kNoPage where a window has left them behind.
struct SeqPages {
  std::vector<std::vector<PageId>> groups;
  std::vector<int> slid;  // of each group: how many pages at the front were left behind
};

// The content of a page goes to another before the next step's rows are written.
struct PageCopy {
  int group;
  PageId from, to;
};

class KvPages {
 public:
  KvPages(const std::vector<PageGroup>& groups, int page_rows);

  // Room in the lists of `seq` for `rows` positions: until there nothing that it is given allocates.
  void reserve(SeqPages& seq, int rows) const;
  // Gives `seq` pages in every group until it has room for `rows` positions. A page that holds position `from` and
  // that others see too is replaced by a copy of it, appended to `copies`. All or nothing: on false no page changed
  // hands. REQUIRES: from < rows.
  bool grow(SeqPages& seq, int from, int rows, std::vector<PageCopy>& copies);
  // Of the rows [from, from + want), how many could have their pages now, where `kept` of each group are another's; one
  // number for each group, or none where nothing is kept.
  int rows_that_fit(const SeqPages& seq, int from, int want, std::span<const int> kept = {}) const;
  // Takes back what is not needed for the first `rows` positions, the last page first.
  void truncate(SeqPages& seq, int rows);
  // Takes back everything.
  void release(SeqPages& seq) { truncate(seq, 0); }
  // Takes back the pages that no row at position >= `from` sees any more.
  void slide(SeqPages& seq, int from);
  // `to` holds the first `rows` positions of `from` as well. REQUIRES: `to` holds nothing.
  void share(const SeqPages& from, SeqPages& to, int rows);

  // Another holder of a page, free or not in use until now.
  void hold(int group, PageId page);
  // Gives a page an address: when nobody holds it any more its content stays, until the page is needed.
  // REQUIRES: it is held, and the owner is known (0 always is).
  void set_address(int group, PageId page, int32_t address, int owner = 0);
  // Content is kept for owners by weight: whose pages are most for its weight gives the next, its longest unused first.
  // One owner alone may fill all.
  void set_owner(int owner, double weight);
  // Takes the address of a page away. REQUIRES: it is held.
  void forget(int group, PageId page);
  // Called with a page whose content is lost and the address that it had.
  std::function<void(int group, PageId page, int32_t address)> on_evict;

  // Whether a seq of `rows` positions could ever have its pages, were it alone.
  bool can_ever_fit(int rows) const;
  // Pages of the group for `rows` positions, at most those that a window leaves.
  int most_pages(int group, int rows) const;

  int available(int group) const { return free_pages(group) + cached_pages(group); }
  int free_pages(int group) const { return static_cast<int>(pool(group).free.size()); }
  int cached_pages(int group) const { return pool(group).n_cached; }
  int total_pages(int group) const { return static_cast<int>(pool(group).pages.size()); }
  // Pages that have been in use: the others have cost no memory yet.
  int touched_pages(int group) const { return pool(group).unused; }
  int page_rows() const { return page_rows_; }
  int n_groups() const { return static_cast<int>(pools_.size()); }
  int window(int group) const { return pool(group).window; }
  // What would be free if some seqs gave all back: this one is counted among them, or no longer.
  void set_aside(const SeqPages& seq);
  void put_back(const SeqPages& seq);
  // Pages that nobody but those holds.
  int aside(int group) const { return pool(group).n_aside; }
  bool held_beside(int group, PageId page) const { return at(group, page).refs > at(group, page).aside; }
  int refs(int group, PageId page) const { return at(group, page).refs; }
  int32_t address(int group, PageId page) const { return at(group, page).address; }
  int64_t n_evicted() const { return n_evicted_; }

  // The first page of a group that a row at position `from` sees.
  int first_page(int group, int from) const {
    const int w = pool(group).window;
    return w == 0 || from < w ? 0 : (from - w + 1) / page_rows_;
  }
  int pages_for(int rows) const { return static_cast<int>((static_cast<int64_t>(rows) + page_rows_ - 1) / page_rows_); }

 private:
  // In exactly one of: free (refs 0, no address), cached (refs 0, an address: in the list of its pool), held (refs >
  // 0).
  struct Page {
    int refs = 0;
    int aside = 0;  // of them, seqs that are set aside
    int32_t address = -1;
    int owner = 0;                             // of its content
    PageId before = kNoPage, after = kNoPage;  // in its owner's list of cached pages
  };
  // Cached pages of one owner, by the time when they were last held.
  struct Kept {
    PageId oldest = kNoPage, newest = kNoPage;
    int n = 0;
  };
  struct Pool {
    int window = 0;
    int eager = 0;
    PageId unused = 0;  // this page and those behind it were never taken
    std::vector<Page> pages;
    std::vector<PageId> free;    // the next to give at the back; those never taken at the front
    std::vector<Kept> kept{{}};  // [owner]
    int n_cached = 0;
    int n_aside = 0;
  };

  Pool& pool(int group) { return pools_[static_cast<size_t>(group)]; }
  const Pool& pool(int group) const { return pools_[static_cast<size_t>(group)]; }
  Page& at(int group, PageId page) { return pool(group).pages[static_cast<size_t>(page)]; }
  const Page& at(int group, PageId page) const { return pool(group).pages[static_cast<size_t>(page)]; }

  bool shared_tail(int group, const SeqPages& seq, int from) const;
  int missing(int group, const SeqPages& seq, int from, int rows) const;
  PageId least_worth(const Pool& p) const;
  PageId take(int group);
  void drop(int group, PageId page);
  void cache(Pool& p, PageId page);
  void uncache(Pool& p, PageId page);

  std::vector<Pool> pools_;
  std::vector<double> weights_{1};  // [owner]
  const int page_rows_;
  int64_t n_evicted_ = 0;
};

}  // namespace ingot
