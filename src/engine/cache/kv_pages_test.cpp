#include "engine/cache/kv_pages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace ingot {
namespace {

TEST(KvPages, GrowIsAllOrNothing) {
  KvPages pages({{.pages = 4}, {.pages = 2}}, 8);
  SeqPages a, b;
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.grow(a, 0, 9, copies));  // two pages of each group
  EXPECT_EQ(pages.free_pages(0), 2);
  EXPECT_EQ(pages.free_pages(1), 0);
  EXPECT_FALSE(pages.grow(b, 0, 1, copies));  // group 1 has none left
  EXPECT_EQ(pages.rows_that_fit(b, 0, 5), 0);
  EXPECT_EQ(pages.rows_that_fit(a, 9, 100), 7);
  EXPECT_EQ(pages.free_pages(0), 2);
  EXPECT_TRUE(pages.grow(a, 9, 16, copies));  // fits into what it has
  pages.truncate(a, 8);
  EXPECT_TRUE(pages.grow(b, 0, 8, copies));
  EXPECT_TRUE(copies.empty());
}

TEST(KvPages, KnowsWhatCanNeverFit) {
  const KvPages pages({{.pages = 4}, {.pages = 4, .window = 9}}, 8);
  EXPECT_TRUE(pages.can_ever_fit(32));
  EXPECT_FALSE(pages.can_ever_fit(33));
  const KvPages windowed({{.pages = 4, .window = 9}}, 8);
  EXPECT_TRUE(windowed.can_ever_fit(1000));  // 9 rows lie across three pages at most, and one is being begun
  EXPECT_FALSE(KvPages({{.pages = 3, .window = 9}}, 8).can_ever_fit(1000));
}

TEST(KvPages, LowPagesComeFirstAndComeBack) {
  KvPages pages({{.pages = 8}}, 4);
  SeqPages a;
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.grow(a, 0, 12, copies));
  EXPECT_EQ(a.groups[0], (std::vector<PageId>{0, 1, 2}));
  pages.release(a);
  EXPECT_EQ(pages.free_pages(0), 8);
}

TEST(KvPages, WritingIntoASharedPageCopiesIt) {
  KvPages pages({{.pages = 4}}, 4);
  SeqPages a, b;
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.grow(a, 0, 6, copies));
  pages.share(a, b, 6);
  EXPECT_EQ(pages.refs(0, 1), 2);
  ASSERT_TRUE(pages.grow(b, 6, 7, copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, 1);
  EXPECT_EQ(copies[0].to, b.groups[0][1]);
  EXPECT_NE(b.groups[0][1], a.groups[0][1]);
  EXPECT_EQ(pages.refs(0, 0), 2);
  ASSERT_TRUE(pages.grow(a, 6, 7, copies));  // the other is alone with its page now
  EXPECT_EQ(copies.size(), 1u);
}

TEST(KvPages, AWindowLeavesPagesBehind) {
  KvPages pages({{.pages = 6}, {.pages = 6, .window = 5}}, 4);
  SeqPages a;
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.grow(a, 0, 20, copies));
  pages.slide(a, 12);  // the next row sees positions 8 to 12
  EXPECT_EQ(a.groups[1], (std::vector<PageId>{kNoPage, kNoPage, 2, 3, 4}));
  EXPECT_EQ(a.groups[0].front(), 0);
  EXPECT_EQ(pages.free_pages(1), 3);
  pages.release(a);
  EXPECT_EQ(pages.free_pages(1), 6);
}

TEST(KvPages, TheLongestUnusedContentGoesFirst) {
  KvPages pages({{.pages = 3}}, 1);
  std::vector<int32_t> lost;
  pages.on_evict = [&](int, PageId, int32_t address) { lost.push_back(address); };
  std::vector<PageCopy> copies;
  SeqPages seqs[3];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pages.grow(seqs[i], 0, 1, copies));
    pages.set_address(0, seqs[i].groups[0][0], 10 + i);
  }
  for (const int i : {1, 0, 2}) pages.release(seqs[i]);
  EXPECT_EQ(pages.cached_pages(0), 3);
  pages.hold(0, 1);  // somebody finds 11 again
  SeqPages next;
  ASSERT_TRUE(pages.grow(next, 0, 2, copies));
  EXPECT_EQ(lost, (std::vector<int32_t>{10, 12}));
  EXPECT_FALSE(pages.grow(next, 2, 3, copies));
}

// Of several that share pages: what would be free without them, and nothing changes hands.
TEST(KvPages, CountsWhatIsFreeWithoutSome) {
  KvPages pages({{.pages = 8}, {.pages = 8, .window = 4}}, 4);
  SeqPages a, b, c;
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.grow(a, 0, 12, copies));
  pages.slide(a, 11);
  pages.share(a, b, 12);
  ASSERT_TRUE(pages.grow(c, 0, 5, copies));
  const PageId shared = a.groups[0][0];
  pages.set_aside(a);
  EXPECT_EQ(pages.aside(0), 0) << "the other holds them";
  EXPECT_TRUE(pages.held_beside(0, shared));
  pages.set_aside(b);
  EXPECT_EQ(pages.aside(0), 3);
  EXPECT_EQ(pages.aside(1), 1) << "the window has left two behind";
  EXPECT_FALSE(pages.held_beside(0, shared));
  pages.set_aside(c);
  EXPECT_EQ(pages.aside(0), 5);
  EXPECT_EQ(pages.free_pages(0), 3);
  for (const SeqPages* one : {&b, &a, &c}) pages.put_back(*one);
  EXPECT_EQ(pages.aside(0) + pages.aside(1), 0);
  EXPECT_TRUE(pages.held_beside(0, shared));
}

// By weight, and whoever is alone has all.
TEST(KvPages, WhoKeepsMostGivesFirst) {
  KvPages pages({{.pages = 12}}, 1);
  std::vector<int32_t> lost;
  pages.on_evict = [&](int, PageId, int32_t address) { lost.push_back(address); };
  pages.set_owner(1, 3);
  std::vector<PageCopy> copies;
  const auto keep = [&](int owner, int n, int address) {
    SeqPages seq;
    ASSERT_TRUE(pages.grow(seq, 0, n, copies));
    for (int i = 0; i < n; ++i) pages.set_address(0, seq.groups[0][static_cast<size_t>(i)], address + i, owner);
    pages.release(seq);  // the last first
  };
  keep(0, 12, 100);
  keep(1, 9, 200);
  EXPECT_EQ(lost, (std::vector<int32_t>{111, 110, 109, 108, 107, 106, 105, 104, 103}));
  lost.clear();
  keep(1, 2, 300);  // 9 of 3 shares and 3 of one: its own go, and then as many of each
  EXPECT_EQ(lost, (std::vector<int32_t>{102, 208}));
  EXPECT_EQ(pages.cached_pages(0), 12);
}

TEST(KvPages, OldContentGivesWayBeforeMemoryThatWasNeverUsed) {
  KvPages pages({{.pages = 8, .eager = 3}}, 1);
  std::vector<int32_t> lost;
  pages.on_evict = [&](int, PageId, int32_t address) { lost.push_back(address); };
  std::vector<PageCopy> copies;
  SeqPages old, other, held, most;
  ASSERT_TRUE(pages.grow(old, 0, 2, copies));
  for (int i = 0; i < 2; ++i) pages.set_address(0, old.groups[0][static_cast<size_t>(i)], 10 + i);
  pages.release(old);
  ASSERT_TRUE(pages.grow(other, 0, 1, copies));  // the third page: still within what may be used at will
  EXPECT_EQ(pages.touched_pages(0), 3);
  EXPECT_TRUE(lost.empty());
  ASSERT_TRUE(pages.grow(held, 0, 1, copies));
  EXPECT_EQ(lost, (std::vector<int32_t>{11}));  // the end of a text goes before its beginning
  pages.release(held);                          // without content: what is free and was used comes first
  ASSERT_TRUE(pages.grow(held, 0, 2, copies));
  EXPECT_EQ(lost, (std::vector<int32_t>{11, 10}));
  EXPECT_EQ(pages.touched_pages(0), 3);
  ASSERT_TRUE(pages.grow(most, 0, 5, copies));  // what seqs hold at once may take all there is
  EXPECT_EQ(pages.touched_pages(0), 8);
  EXPECT_FALSE(pages.grow(most, 5, 6, copies));
}

// A plain model beside the real one: which pages have an address, and what each seq lists.
struct Plain {
  KvPages pages{{{.pages = 40, .eager = 12}, {.pages = 25, .window = 7}}, 4};
  std::map<std::pair<int, PageId>, int32_t> addresses;  // of pages with content
  std::vector<SeqPages> seqs{8};
  std::vector<int> rows = std::vector<int>(8, 0);
  std::vector<PageCopy> copies;
  std::mt19937 random{1};

  Plain() {
    pages.on_evict = [this](int g, PageId page, int32_t address) {
      ASSERT_EQ(addresses.at({g, page}), address);
      addresses.erase({g, page});
    };
  }

  void check_group(int g) const {
    std::map<PageId, int> held;
    for (const SeqPages& seq : seqs) {
      for (const PageId page : seq.groups.empty() ? std::vector<PageId>{} : seq.groups[static_cast<size_t>(g)]) {
        if (page != kNoPage) ++held[page];
      }
    }
    int cached = 0;
    for (PageId page = 0; page < pages.total_pages(g); ++page) {
      ASSERT_EQ(pages.refs(g, page), held.contains(page) ? held[page] : 0);
      ASSERT_EQ(pages.address(g, page) >= 0, addresses.contains({g, page}));
      cached += !held.contains(page) && addresses.contains({g, page});
    }
    ASSERT_EQ(pages.cached_pages(g), cached);
    ASSERT_EQ(pages.free_pages(g) + cached + static_cast<int>(held.size()), pages.total_pages(g));
  }

  void grow(size_t s, int more) {
    const int fit = pages.rows_that_fit(seqs[s], rows[s], more);
    ASSERT_EQ(pages.grow(seqs[s], rows[s], rows[s] + more, copies), fit == more);
    if (fit == more) rows[s] += more;
    copies.clear();
  }
  void truncate(size_t s, int less) {
    rows[s] = std::max(rows[s] - less, 0);
    if (!seqs[s].groups.empty() && seqs[s].slid[1] * 4 > rows[s]) rows[s] = 0;  // the window was left behind
    pages.truncate(seqs[s], rows[s]);
  }
  void share(size_t s, size_t from) {
    if (rows[s] > 0 || rows[from] == 0) return;
    pages.release(seqs[s]);
    pages.share(seqs[from], seqs[s], rows[from]);
    rows[s] = rows[from];
  }
  void give_address(size_t s, int32_t address) {
    for (int g = 0; g < 2 && rows[s] > 0; ++g) {
      const PageId page = seqs[s].groups[static_cast<size_t>(g)][static_cast<size_t>(rows[s] - 1) / 4];
      if (page == kNoPage || pages.address(g, page) >= 0) continue;
      pages.set_address(g, page, address);
      addresses[{g, page}] = address;
    }
  }
};

// INGOT_LONG=1 makes it ten million operations.
TEST(KvPages, PropertyAgainstPlainModel) {
  const int64_t operations = std::getenv("INGOT_LONG") ? 10'000'000 : 500'000;
  Plain plain;
  for (int64_t i = 0; i < operations; ++i) {
    const size_t s = plain.random() % plain.seqs.size();
    const int n = 1 + static_cast<int>(plain.random() % 30);
    const unsigned what = static_cast<unsigned>(plain.random() % 6);
    if (what < 2) plain.grow(s, n);
    if (what == 2) plain.truncate(s, n);
    if (what == 3) plain.pages.slide(plain.seqs[s], plain.rows[s]);
    if (what == 4) plain.share(s, plain.random() % plain.seqs.size());
    if (what == 5) plain.give_address(s, static_cast<int32_t>(i % 1'000'000));
    for (int g = 0; g < 2 && i % 256 == 0; ++g) plain.check_group(g);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (SeqPages& seq : plain.seqs) plain.pages.release(seq);
  for (int g = 0; g < 2; ++g) plain.check_group(g);
}

}  // namespace
}  // namespace ingot
