// Texts that have hung or crashed other tokenizers: long runs of one letter, of blank lines, of emoji. Time must grow
// with the text and not with its square, on a thread with 256 KiB of stack.
#include <gtest/gtest.h>

#include "text/long_texts_test_support.h"
#include "text/tokenizer.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 2; i++) {
    const double start = cpu_seconds();
    const std::vector<Token> ids = tokenizer.encode(text, {.parse_special = true});
    best = std::min(best, cpu_seconds() - start);
    EXPECT_FALSE(ids.empty());
  }
  return best;
}

void check_linear(const Tokenizer& tokenizer, std::string_view unit, const std::string& name) {
  constexpr size_t kBytes = kSanitized ? 1 << 12 : 1 << 15;
  if (kSanitized) {
    EXPECT_FALSE(tokenizer.encode(repeat(unit, 4 * kBytes), {.parse_special = true}).empty()) << name;
    return;
  }
  const std::string small = repeat(unit, kBytes);
  const std::string large = repeat(unit, 4 * kBytes);
  double ratio = 0;
  // Four times the text may take four times the time, a logarithm and what the cache misses; the square would be 16.
  for (int attempt = 0; attempt < 5; attempt++) {
    ratio = seconds_to_encode(tokenizer, large) / seconds_to_encode(tokenizer, small);
    if (ratio < 9) return;
  }
  ADD_FAILURE() << name << ": " << unit << " takes " << ratio << " times as long for four times the text";
}

void check_all(const std::string& file) {
  const auto tokenizer = Tokenizer::load(file);
  const std::string_view units[] = {"a",
                                    "A",
                                    "\n",
                                    " ",
                                    "\t\n",
                                    "1",
                                    "!",
                                    "'",
                                    "é",
                                    "\u0301",
                                    "a\u0323\u0301",
                                    "中",
                                    "中A",
                                    "😀",
                                    "👩\u200d👧",
                                    "\u200b",
                                    "'s",
                                    "<|im_end|>",
                                    "<|im_en",
                                    "word ",
                                    "▁",
                                    "x▁",
                                    "\r\n \n",
                                    "the king "};
  on_small_stack([&] {
    for (const std::string_view unit : units) check_linear(*tokenizer, unit, file);
  });
}

TEST(LongText, ByteLevel) { check_all(fixture("llama3_like.json")); }
TEST(LongText, ByteLevelWithNfc) { check_all(fixture("o200k_like.json")); }
TEST(LongText, Characters) { check_all(fixture("llama2_like.json")); }
TEST(LongText, SentencePiece) { check_all(fixture("tok512.bin")); }

TEST(LongText, RunsKeepTheirText) {
  for (const char* name : {"llama3_like.json", "llama2_like.json", "tok512.bin"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    on_small_stack([&] {
      for (const std::string_view unit : {"a", "\t", "😀"}) {
        for (const size_t n : {10000u, 26000u, 131072u}) {
          const std::string text = repeat(unit, n);
          EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text), true) == text) << name << " " << n;
        }
      }
    });
  }
}

}  // namespace
}  // namespace ingot
