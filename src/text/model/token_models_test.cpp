// Unigram, WordPiece and WordLevel: small vocabularies whose answers can be worked out by hand, and hostile texts.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "text/model/unigram.h"
#include "text/model/wordlevel.h"
#include "text/model/wordpiece.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

struct Words {
  Vocab vocab;
  explicit Words(const std::vector<std::string>& tokens, Token control = kNoToken) {
    for (const std::string& text : tokens) {
      const Token token = vocab.add(text, TokenKind::kNormal);
      if (token == control) vocab.set_kind(token, TokenKind::kControl);
      vocab.index(token);
    }
  }
};

std::vector<Token> encode(const TokenModel& model, std::string_view text) {
  ModelScratch scratch;
  std::vector<Token> out;
  model.encode(text, scratch, out);
  return out;
}

using Ids = std::vector<Token>;

TEST(Unigram, TheBestSum) {
  const Words words({"<unk>", "a", "b", "c", "d", "cd", "ab", "abc", "abcd"});
  const std::vector<double> scores = {0, 0, 0, 0, 0, 1, 2, 5, 10};
  const Unigram model(words.vocab, {.unknown = 0}, scores);
  EXPECT_EQ(encode(model, "abcdacdxx"), (Ids{8, 1, 5, 0}));
  EXPECT_EQ(encode(model, "xaxy"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(model, "abdc"), (Ids{6, 4, 3}));
  EXPECT_EQ(encode(model, "\u4E2Dabc"), (Ids{0, 7}));
}

// Of equal sums the path found first stays: the one whose last token begins earliest.
TEST(Unigram, Ties) {
  const Words words({"<unk>", "a", "aa", "aaa"});
  const std::vector<double> scores = {0, -1, -2, -3};
  EXPECT_EQ(encode(Unigram(words.vocab, {.unknown = 0}, scores), "aaaa"), (Ids{1, 3}));
}

TEST(Unigram, ByteFallback) {
  Words words({"<unk>", "a", "<0xC3>", "<0xA9>", "<0x41>"});
  const std::vector<double> scores = {0, -1, -2, -2, -2};
  const Unigram model(words.vocab, {.unknown = 0, .byte_fallback = true}, scores);
  EXPECT_EQ(encode(model, "a\u00E9A"), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(encode(model, "a\u00E9B"), (Ids{1, 0})) << "one byte without a token makes the run unknown";
}

TEST(Unigram, NoUnknownToken) {
  const Words words({"a", "b"});
  const Unigram model(words.vocab, {}, std::vector<double>{-1, -1});
  EXPECT_EQ(encode(model, "ab"), (Ids{0, 1}));
  EXPECT_NE(error_from([&] { encode(model, "abc"); }).find("no token writes 'c'"), std::string::npos);
}

TEST(Unigram, TextNeverBecomesAControlToken) {
  const Words words({"<unk>", "<", "s", ">", "<s>"}, 4);
  const std::vector<double> scores = {0, -5, -5, -5, 0};
  EXPECT_EQ(encode(Unigram(words.vocab, {.unknown = 0}, scores), "<s>"), (Ids{1, 2, 3}));
}

TEST(Unigram, BadScores) {
  const Words words({"<unk>", "a"});
  for (const double score : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    EXPECT_NE(error_from([&] { Unigram(words.vocab, {.unknown = 0}, std::vector<double>{0, score}); }), "");
  }
  EXPECT_NE(error_from([&] { Unigram(words.vocab, {.unknown = 0}, std::vector<double>{0, 0, 0}); }), "");
  const Words large({"<unk>", std::string(5000, 'a')});
  EXPECT_NE(error_from([&] { Unigram(large.vocab, {.unknown = 0}, std::vector<double>{0, 0}); }), "");
}

// Every place of a long run begins tokens of 1 to 16 letters: linear time, and memory of the run only.
TEST(Unigram, LongRunsAreLinear) {
  std::vector<std::string> tokens = {"<unk>", " "};
  std::vector<double> scores = {0, -1};
  for (size_t n = 1; n <= 16; n++) {
    tokens.emplace_back(n, 'a');
    scores.push_back(-2.0 - static_cast<double>(n) / 100);
  }
  const Words words(tokens);
  const Unigram model(words.vocab, {.unknown = 0}, scores);
  const auto seconds = [&](const std::string& text) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(encode(model, text).size(), text.size() / 16);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double one = seconds(std::string(1 << 20, 'a'));
  const double two = seconds(std::string(1 << 21, 'a'));
  EXPECT_LT(two, 0.2 + one * 4);
  // Where no token reaches over a place, the path behind it is let go.
  std::string spaced;
  for (int i = 0; i < 100000; i++) spaced += "aaa ";
  ModelScratch scratch;
  std::vector<Token> out;
  model.encode(spaced, scratch, out);
  EXPECT_EQ(out.size(), 200000u);
  EXPECT_LT(scratch.path.capacity(), 64u);
}

TEST(WordPiece, LongestFirst) {
  const Words words({"[UNK]", "un", "##aff", "##able", "##a", "unaff", "##\u4E2D", "x"});
  const WordPiece model(words.vocab, {.unknown = 0});
  EXPECT_EQ(encode(model, "unaffable"), (Ids{5, 3}));
  EXPECT_EQ(encode(model, "una\u4E2D"), (Ids{1, 4, 6}));
  EXPECT_EQ(encode(model, "unb"), (Ids{0}));
  EXPECT_EQ(encode(model, "##able"), (Ids{3}));
  EXPECT_EQ(encode(model, "aff"), (Ids{0}));
}

TEST(WordPiece, LongWordsAreUnknown) {
  const Words words({"[UNK]", "\u4E2D", "##\u4E2D"});
  const WordPiece model(words.vocab, {.unknown = 0, .max_characters = 3});
  EXPECT_EQ(encode(model, "\u4E2D\u4E2D\u4E2D"), (Ids{1, 2, 2}));
  EXPECT_EQ(encode(model, "\u4E2D\u4E2D\u4E2D\u4E2D"), (Ids{0}));
}

TEST(WordPiece, EmptyPrefixAndNoUnknownToken) {
  const Words words({"a", "ab"});
  const WordPiece model(words.vocab, {.prefix = ""});
  EXPECT_EQ(encode(model, "aab"), (Ids{0, 1}));
  EXPECT_NE(error_from([&] { encode(model, "abc"); }).find("no tokens write 'abc'"), std::string::npos);
}

TEST(WordLevel, WholeWords) {
  const Words words({"<unk>", "king", "<s>"}, 2);
  const WordLevel model(words.vocab, 0);
  EXPECT_EQ(encode(model, "king"), (Ids{1}));
  EXPECT_EQ(encode(model, "kings"), (Ids{0}));
  EXPECT_EQ(encode(model, "<s>"), (Ids{0})) << "text never becomes a control token";
  EXPECT_NE(error_from([&] { encode(WordLevel(words.vocab, kNoToken), "x"); }).find("'x' is no token"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot
