#include "grammar/vocabulary.h"

#include <gtest/gtest.h>

#include <set>

#include "base/data_test_support.h"
#include "grammar/matcher_test_support.h"
#include "text/tokenizer.h"

namespace ingot::grammar {
namespace {

// All token texts below `root`, by walking the trie.
std::multiset<std::pair<std::string, int32_t>> texts_below(const Vocabulary& vocabulary, uint32_t root) {
  std::multiset<std::pair<std::string, int32_t>> out;
  const std::vector<TrieNode>& nodes = vocabulary.nodes();
  std::vector<uint32_t> path;
  for (uint32_t at = root + 1; at < nodes[root].end; at++) {
    while (!path.empty() && nodes[path.back()].end <= at) path.pop_back();
    path.push_back(at);
    if (nodes[at].token < 0) continue;
    std::string text;
    for (const uint32_t node : path) text.push_back(static_cast<char>(nodes[node].byte));
    out.emplace(text, nodes[at].token);
  }
  return out;
}

void check_tries(const Vocabulary& vocabulary) {
  std::multiset<std::pair<std::string, int32_t>> all;
  for (int32_t token = 0; token < vocabulary.size(); token++) {
    if (const std::string_view bytes = vocabulary.token_bytes(token); !bytes.empty()) all.emplace(bytes, token);
  }
  std::multiset<std::pair<std::string, int32_t>> found = texts_below(vocabulary, vocabulary.root());
  for (const Vocabulary::Same& pair : vocabulary.same()) {
    EXPECT_EQ(vocabulary.token_bytes(pair.first), vocabulary.token_bytes(pair.second));
    found.emplace(vocabulary.token_bytes(pair.second), pair.second);
  }
  EXPECT_EQ(found, all);
  std::vector<Vocabulary::Slice> slices(vocabulary.slices().begin(), vocabulary.slices().end());
  slices.push_back(vocabulary.letters());
  for (const Vocabulary::Slice& slice : slices) {
    found = texts_below(vocabulary, slice.root);
    for (int32_t token = 0; token < vocabulary.size(); token++) {
      if (in_mask(slice.bits, token)) found.emplace(vocabulary.token_bytes(token), token);
    }
    for (const Vocabulary::Same& pair : vocabulary.same())
      found.emplace(vocabulary.token_bytes(pair.second), pair.second);
    EXPECT_EQ(found, all) << slice.chars;
  }
}

TEST(Vocabulary, TriesHoldEveryTokenOnce) { check_tries(*small_vocabulary()); }

TEST(Vocabulary, SlicesArePlainTexts) {
  const auto vocabulary = small_vocabulary();
  const auto id = [&](std::string_view text) {
    for (int32_t token = 0; token < vocabulary->size(); token++) {
      if (vocabulary->token_bytes(token) == text) return token;
    }
    return -1;
  };
  const auto slices = vocabulary->slices();
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_TRUE(in_mask(slices[0].bits, id("a long piece of plain text")));
  EXPECT_FALSE(in_mask(slices[1].bits, id("a long piece of plain text")));
  EXPECT_TRUE(in_mask(slices[2].bits, id("\xC3\xA9")));
  for (const char* text : {"\"", "me\":", "\n", "\\n", "caf\xC3", "\x7F"})
    EXPECT_FALSE(in_mask(slices[0].bits, id(text))) << text;
  EXPECT_FALSE(in_mask(slices[0].bits, vocabulary->special_token("<|call|>").value()));
  EXPECT_TRUE(in_mask(vocabulary->letters().bits, id("hello")));
  for (const char* text : {" hello", "12", "a long piece of plain text", "\xC3\xA9"})
    EXPECT_FALSE(in_mask(vocabulary->letters().bits, id(text))) << text;
}

TEST(Vocabulary, EndTokensMatchNoText) {
  const auto vocabulary = small_vocabulary();
  const int32_t end = vocabulary->size() - 1;
  EXPECT_TRUE(vocabulary->is_end(end));
  EXPECT_TRUE(vocabulary->token_bytes(end).empty());
  EXPECT_TRUE(vocabulary->token_bytes(-1).empty());
  EXPECT_TRUE(vocabulary->token_bytes(1 << 20).empty());
  const std::vector<int32_t> odd = {-4, 7, 7, 1 << 20};
  const Vocabulary some(small_tokens(), odd);
  EXPECT_EQ(some.end_tokens().size(), 1u);
}

TEST(Vocabulary, OfATokenizer) {
  const std::string path = test_data("vocab-gguf/ggml-vocab-llama-spm.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  const auto tokenizer = Tokenizer::load(path);
  const auto vocabulary = Vocabulary::make(*tokenizer, tokenizer->end_tokens());
  EXPECT_EQ(vocabulary->size(), tokenizer->vocab_size());
  EXPECT_TRUE(vocabulary->special_token("<s>").has_value());
  // Of a model with fewer logits than its tokenizer has tokens.
  const int32_t last = vocabulary->special_token("<s>").value();
  EXPECT_FALSE(Vocabulary::make(*tokenizer, tokenizer->end_tokens(), last)->special_token("<s>").has_value());
  check_tries(*vocabulary);
}

}  // namespace
}  // namespace ingot::grammar
