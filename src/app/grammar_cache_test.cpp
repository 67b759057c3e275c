#include "app/grammar_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace ingot {
namespace {

using grammar::Compiled;
using grammar::Language;
using grammar::Source;
using Taken = GrammarMemory::Taken;

constexpr size_t kMiB = size_t{1} << 20;

std::shared_ptr<const grammar::Vocabulary> bytes_vocabulary() {
  static const auto made = [] {
    std::vector<grammar::Vocabulary::Token> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
    tokens.push_back({"<end>", true});
    return std::make_shared<const grammar::Vocabulary>(tokens, std::vector<int32_t>{256});
  }();
  return made;
}

Source choice(const std::string& text) { return {.language = Language::kChoice, .text = {}, .choices = {text}}; }

std::shared_ptr<const Compiled> made(GrammarCache& cache, const std::string& tenant, const Source& source,
                                     const grammar::Limits& limits = {}) {
  auto compiled = grammar::compile(source, bytes_vocabulary(), limits, cache.owner(tenant));
  compiled->count();
  return compiled;
}

TEST(GrammarMemory, ATenantHasAsMuchAsItLeavesFree) {
  GrammarMemory memory(100);
  EXPECT_EQ(memory.take("a", 40), Taken::kYes);
  EXPECT_EQ(memory.take("a", 20), Taken::kYes);  // it had no more than is left then
  EXPECT_EQ(memory.take("a", 1), Taken::kShare);
  EXPECT_EQ(memory.take("b", 50), Taken::kFull);
  EXPECT_EQ(memory.take("b", 30, 20), Taken::kFull);
  EXPECT_EQ(memory.take("b", 20, 20), Taken::kYes);
  EXPECT_EQ(memory.take("c", 20), Taken::kYes);
  memory.give("a", 60);
  EXPECT_EQ(memory.bytes("a"), 0u);
  EXPECT_EQ(memory.bytes(), 40u);
  EXPECT_EQ(memory.take("a", 60), Taken::kYes);
}

// What is evicted and still used by an answer is counted; once that ends it is not.
TEST(GrammarCache, GrammarsInUseAreCountedThoughNotKept) {
  const auto cache = std::make_shared<GrammarCache>(0, 64 * kMiB);
  auto compiled = made(*cache, "a", choice(std::string(5000, 'x')));
  cache->keep("a", "key", compiled);
  EXPECT_EQ(cache->entries(), 0u);  // none is kept
  const size_t used = cache->memory().bytes("a");
  EXPECT_GT(used, 100'000u);
  {
    grammar::Matcher first(compiled);
    std::vector<std::unique_ptr<grammar::Matcher>> choices;
    for (int i = 0; i < 8; ++i) choices.push_back(first.clone());
    std::vector<uint32_t> words(compiled->vocabulary().words());
    for (auto& one : choices) {
      for (int i = 0; i < 4000 && one->advance('x'); ++i) EXPECT_TRUE(one->mask(words));
    }
    EXPECT_GT(cache->memory().bytes("a"), used + 8 * 32'000);
  }
  compiled.reset();
  EXPECT_EQ(cache->memory().bytes(), 0u);
}

// Kept grammars that nobody uses go for those that are needed: a tenant's own, or the largest tenant's.
TEST(GrammarCache, KeptGrammarsGiveWay) {
  const auto cache = std::make_shared<GrammarCache>(64 * kMiB, 4 * kMiB);
  for (int i = 0; i < 8; ++i) {
    const std::string text = std::to_string(i) + std::string(1000, 'x');
    cache->keep("a", text, made(*cache, "a", choice(text)));
  }
  cache->keep("b", "b", made(*cache, "b", choice("b")));
  const size_t entries = cache->entries();
  EXPECT_EQ(entries, 9u);
  const auto in_use = cache->find("a", "0" + std::string(1000, 'x'));
  ASSERT_TRUE(in_use);
  const size_t free = 4 * kMiB - cache->memory().bytes();
  EXPECT_TRUE(cache->take("c", free + 1));
  EXPECT_LT(cache->entries(), entries);
  EXPECT_TRUE(cache->find("b", "b"));  // not the small one's
  EXPECT_TRUE(cache->find("a", "0" + std::string(1000, 'x')));
  EXPECT_FALSE(cache->take("d", 4 * kMiB));
  EXPECT_EQ(cache->entries(), 1u);  // all that could go went
  cache->give("c", free + 1);
}

TEST(GrammarCache, WithoutRoomAnAnswerFailsAndSaysSo) {
  const auto cache = std::make_shared<GrammarCache>(kMiB, 2 * kMiB);
  const auto compiled = made(*cache, "a", choice(std::string(3000, 'x')));
  ASSERT_TRUE(cache->take("b", 2 * kMiB - cache->memory().bytes() - 40'000));
  grammar::Matcher matcher(compiled);
  std::vector<uint32_t> words(compiled->vocabulary().words());
  for (int i = 0; i < 3000 && matcher.mask(words); ++i) matcher.advance('x');
  EXPECT_TRUE(matcher.failed());
  EXPECT_NE(matcher.failure().find("as much memory as they may"), std::string::npos) << matcher.failure();
}

// A grammar whose tables an answer has used up is compiled anew for the next one, which does not fail for it.
TEST(GrammarCache, WornGrammarsAreNotFound) {
  const auto cache = std::make_shared<GrammarCache>(64 * kMiB, 64 * kMiB);
  const Source source{.language = Language::kRegex, .text = "[abc]*a[abc]{12}c", .choices = {}};
  const grammar::Limits limits{.states = 600};
  cache->keep("a", "key", made(*cache, "a", source, limits));
  EXPECT_EQ(cache->find("a", "key"), cache->find("a", "key"));
  {
    grammar::Matcher matcher(cache->find("a", "key"));
    std::vector<uint32_t> words(matcher.compiled().vocabulary().words());
    uint32_t random = 7;
    for (int i = 0; i < 2000 && matcher.mask(words); ++i) {
      random = random * 1664525u + 1013904223u;
      matcher.advance('a' + static_cast<int>(random >> 28) % 3);
    }
    EXPECT_TRUE(matcher.failed());
  }
  EXPECT_FALSE(cache->find("a", "key"));
  EXPECT_EQ(cache->entries(), 0u);
  EXPECT_EQ(cache->memory().bytes(), 0u);
  grammar::Matcher again(made(*cache, "a", source, limits));
  std::vector<uint32_t> words(again.compiled().vocabulary().words());
  EXPECT_TRUE(again.mask(words)) << again.failure();
}

TEST(GrammarCache, MasksAreSharedWithinATenant) {
  const auto cache = std::make_shared<GrammarCache>(64 * kMiB, 64 * kMiB);
  const auto first = made(*cache, "a", choice("abc"));
  cache->keep("a", "1", first);
  EXPECT_EQ(cache->owner("a").masks, first->masks());
  EXPECT_NE(cache->owner("b").masks, first->masks());
  EXPECT_NE(cache->owner("").masks, first->masks());
}

}  // namespace
}  // namespace ingot
