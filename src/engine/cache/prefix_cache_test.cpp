#include "engine/cache/prefix_cache.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

std::vector<int32_t> tokens_of(int first, int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

// Pages of 4 rows; a seq's life is one call.
struct Fixture {
  KvPages pages;
  PrefixCache cache;
  std::vector<PageCopy> copies;

  explicit Fixture(const std::vector<PageGroup>& groups = {{.pages = 8}}, PrefixCacheOptions options = {})
      : pages(groups, 4), cache(pages, options) {}

  // Computes the tokens, gives their full pages addresses and lets go. Returns the pages of group 0.
  std::vector<PageId> compute(const std::string& space, const std::vector<int32_t>& tokens, bool state = false) {
    SeqPages seq;
    EXPECT_TRUE(pages.grow(seq, 0, static_cast<int>(tokens.size()), copies));
    const int32_t root = cache.root(space);
    int32_t node = root;
    cache.hold(root);
    for (size_t i = 0; i + 4 <= tokens.size(); i += 4) {
      node = cache.add(node, std::span(tokens).subspan(i, 4), seq, static_cast<int>(i / 4));
      pages.slide(seq, static_cast<int>(i) + 4);
    }
    if (state) cache.snapshot(node);
    cache.release(node);
    cache.release(root);
    const std::vector<PageId> held = seq.groups[0];
    pages.release(seq);
    return held;
  }
  int found(const std::string& space, const std::vector<int32_t>& tokens, int most = 100) {
    const int32_t root = cache.root(space);
    const PrefixHit hit = cache.find(root, tokens, most);
    cache.release(root);
    return hit.pages;
  }
};

TEST(PrefixCache, FindsTheLongestRunOfFullPages) {
  Fixture f;
  f.compute("a", tokens_of(0, 10));
  EXPECT_EQ(f.found("a", tokens_of(0, 10)), 2);
  EXPECT_EQ(f.found("a", tokens_of(0, 100)), 2);
  EXPECT_EQ(f.found("a", tokens_of(0, 10), 1), 1);
  EXPECT_EQ(f.found("a", tokens_of(0, 7)), 1);
  EXPECT_EQ(f.found("a", tokens_of(1, 10)), 0);
  EXPECT_EQ(f.found("b", tokens_of(0, 10)), 0) << "another tenant";
  std::vector<int32_t> other = tokens_of(0, 10);
  other[5] = 99;
  EXPECT_EQ(f.found("a", other), 1);
}

TEST(PrefixCache, TheEndOfATextIsForgottenBeforeItsBeginning) {
  Fixture f;
  f.compute("a", tokens_of(0, 16));   // 4 pages
  f.compute("a", tokens_of(50, 24));  // 6 more of 8: two are taken away
  EXPECT_EQ(f.found("a", tokens_of(0, 16)), 2);
  EXPECT_EQ(f.found("a", tokens_of(50, 24)), 6);
  EXPECT_EQ(f.cache.n_nodes(), 1 + 8);  // the root, and the pages that are there
}

// Many texts of one owner leave another's; spaces of one owner count as one, and numbers of those that have gone are
// free.
TEST(PrefixCache, OwnersShareWhatIsKept) {
  Fixture f;
  const auto keep = [&](const std::string& space, const std::string& owner, int first) {
    const int32_t root = f.cache.root(space, owner);
    f.compute(space, tokens_of(first, 8));
    f.cache.release(root);
  };
  keep("q", "quiet", 0);
  for (int i = 1; i < 10; ++i) keep(i % 2 ? "f1" : "f2", "flood", 100 * i);
  EXPECT_EQ(f.found("q", tokens_of(0, 8)), 2);
  EXPECT_EQ(f.found("f1", tokens_of(900, 8)), 2);
  for (int i = 0; i < 1000; ++i) keep(std::to_string(i), std::to_string(i), i);
  EXPECT_LE(f.cache.n_owners(), 9);
}

// Where every hash is the same, contents are still told apart.
TEST(PrefixCache, CollisionsNeverGiveAnothersPages) {
  Fixture f({{.pages = 200}}, {.hash_bits = 1});
  std::vector<std::vector<PageId>> pages;
  for (int i = 0; i < 40; ++i) pages.push_back(f.compute(i % 2 ? "a" : "b", tokens_of(i * 7, 16)));
  for (int i = 0; i < 40; ++i) {
    const int32_t root = f.cache.root(i % 2 ? "a" : "b");
    const PrefixHit hit = f.cache.find(root, tokens_of(i * 7, 16), 4);
    ASSERT_EQ(hit.pages, 4);
    SeqPages seq;
    f.cache.take(hit, seq);
    EXPECT_EQ(seq.groups[0], pages[static_cast<size_t>(i)]);
    f.pages.release(seq);
    f.cache.release(root);
    EXPECT_EQ(f.found(i % 2 ? "b" : "a", tokens_of(i * 7, 16)), 0);
  }
}

TEST(PrefixCache, AWindowNeedsOnlyItsLastPages) {
  Fixture f({{.pages = 20, .window = 6}});
  f.compute("a", tokens_of(0, 32));
  EXPECT_EQ(f.found("a", tokens_of(0, 32)), 8);
  SeqPages seq;
  const int32_t root = f.cache.root("a");
  f.cache.take(f.cache.find(root, tokens_of(0, 32), 8), seq);
  EXPECT_EQ(seq.groups[0][5], kNoPage);  // a row at 32 sees 27 to 32
  EXPECT_NE(seq.groups[0][6], kNoPage);
  f.pages.release(seq);
  f.cache.release(root);
}

TEST(PrefixCache, AHitEndsWhereASnapshotIs) {
  Fixture f({{.pages = 8}}, {.has_state = true, .first_snapshot = 5, .n_snapshots = 1});
  f.compute("a", tokens_of(0, 8), true);
  EXPECT_EQ(f.found("a", tokens_of(0, 16)), 2);
  EXPECT_EQ(f.found("a", tokens_of(0, 7)), 0) << "there is none after the first page";
  f.compute("a", tokens_of(90, 8), true);  // takes the only slot
  EXPECT_EQ(f.found("a", tokens_of(0, 16)), 0);
  EXPECT_EQ(f.found("a", tokens_of(90, 16)), 2);
}

TEST(PrefixCache, NothingIsLeftWhenAllPagesAreTaken) {
  Fixture f;
  f.compute("a", tokens_of(0, 16));
  f.compute("b", tokens_of(0, 12));
  SeqPages all;
  ASSERT_TRUE(f.pages.grow(all, 0, 32, f.copies));
  EXPECT_EQ(f.cache.n_nodes(), 0);
}

}  // namespace
}  // namespace ingot
