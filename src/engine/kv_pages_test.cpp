#include "engine/kv_pages.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace ingot {
namespace {

// Every page is free or held by exactly the seqs that list it.
void check_conserved(const KvPages& pages, const std::vector<SeqPages>& seqs) {
  for (int g = 0; g < pages.n_groups(); ++g) {
    std::map<PageId, int> held;
    for (const SeqPages& seq : seqs) {
      if (seq.groups.empty()) continue;
      for (const PageId page : seq.groups[static_cast<size_t>(g)]) ++held[page];
    }
    ASSERT_EQ(pages.free_pages(g) + static_cast<int>(held.size()), pages.total_pages(g));
    for (const auto& [page, n] : held) ASSERT_EQ(pages.refs(g, page), n);
  }
}

TEST(KvPages, GrowIsAllOrNothing) {
  KvPages pages({4, 2}, 8);
  SeqPages a, b;
  ASSERT_TRUE(pages.grow(a, 9));  // two pages of each group
  EXPECT_EQ(pages.free_pages(0), 2);
  EXPECT_EQ(pages.free_pages(1), 0);
  EXPECT_FALSE(pages.grow(b, 1));  // group 1 has none left
  EXPECT_EQ(pages.free_pages(0), 2);
  check_conserved(pages, {a, b});
  EXPECT_TRUE(pages.grow(a, 16));  // fits into what it has
  pages.truncate(a, 8);
  EXPECT_TRUE(pages.grow(b, 8));
  check_conserved(pages, {a, b});
}

TEST(KvPages, RefusesWhatCanNeverFit) {
  const KvPages pages({4, 2}, 8);
  EXPECT_TRUE(pages.can_ever_fit(16));
  EXPECT_FALSE(pages.can_ever_fit(17));
}

TEST(KvPages, LowPagesComeFirstAndComeBack) {
  KvPages pages({8}, 4);
  SeqPages a;
  ASSERT_TRUE(pages.grow(a, 12));
  EXPECT_EQ(a.groups[0], (std::vector<PageId>{0, 1, 2}));
  pages.release(a);
  EXPECT_EQ(pages.free_pages(0), 8);
}

// A plain model beside the real one: a set of free pages for each group.
TEST(KvPages, PropertyAgainstPlainModel) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const int rows_of_page = 1 + static_cast<int>(random() % 9);
    const std::vector<int> totals = {1 + static_cast<int>(random() % 30), 1 + static_cast<int>(random() % 30)};
    KvPages pages(totals, rows_of_page);
    std::vector<SeqPages> seqs(6);
    std::vector<int> held(6, 0);
    for (int step = 0; step < 2000; ++step) {
      const size_t s = random() % seqs.size();
      const int rows = static_cast<int>(random() % 120);
      const int wanted = (rows + rows_of_page - 1) / rows_of_page;
      if (random() % 2) {
        const int more = std::max(0, wanted - held[s]);
        bool fits = true;
        for (int g = 0; g < 2; ++g) fits = fits && more <= pages.free_pages(g);
        ASSERT_EQ(pages.grow(seqs[s], rows), fits);
        if (fits) held[s] = std::max(held[s], wanted);
      } else {
        pages.truncate(seqs[s], rows);
        held[s] = std::min(held[s], wanted);
      }
      check_conserved(pages, seqs);
    }
    for (SeqPages& seq : seqs) pages.release(seq);
    for (int g = 0; g < 2; ++g) ASSERT_EQ(pages.free_pages(g), totals[static_cast<size_t>(g)]);
  }
}

}  // namespace
}  // namespace ingot
