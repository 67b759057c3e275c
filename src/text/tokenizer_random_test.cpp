// Random texts through byte-level tokenizers: nothing of a text is lost. 20,000 texts for each, or as many as
// INGOT_RANDOM_TEXTS says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/utf8.h"
#include "text/load/tokenizer_load.h"
#include "text/split/cuts.h"
#include "text/tokenizers_test_support.h"
#include "text/unicode/unicode.h"

namespace ingot {
namespace {

size_t text_count() {
  const char* wanted = std::getenv("INGOT_RANDOM_TEXTS");
  return wanted != nullptr ? static_cast<size_t>(std::strtoull(wanted, nullptr, 10)) : 20000;
}

// Characters of many kinds, mostly in runs of one kind, and pieces that tokenizers treat in a way of their own.
class RandomTexts {
 public:
  explicit RandomTexts(unsigned seed) : rng_(seed) {}

  std::string next() {
    static constexpr std::string_view kPieces[] = {"'s",   "'LL",    "<|im_end|>", "<0x0A>", "▁",  "\r\n",
                                                   " \n ", "\u200d", "e\u0301",    "the ",   "  ", "123456",
                                                   "」",   "://",    "\u3000",     "don't"};
    std::string text;
    for (size_t runs = rng_() % 6; runs > 0; runs--) {
      const size_t kind = rng_() % 12;
      for (size_t n = 1 + rng_() % 12; n > 0; n--) {
        if (kind < std::size(kRanges)) {
          const auto [first, last] = kRanges[kind];
          utf8_append(text, first + static_cast<uint32_t>(rng_() % (last - first + 1)));
        } else {
          text += kPieces[rng_() % std::size(kPieces)];
        }
      }
    }
    return text;
  }

 private:
  // The last takes all of Unicode; utf8_append makes U+FFFD of surrogates.
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {'a', 'z'},       {' ', '~'},       {0, 0x2FF},       {0x300, 0x36F},     {0x400, 0x52F}, {0x600, 0x6FF},
      {0x3040, 0x30FF}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FAFF}, {0, 0x10FFFF}};
  std::mt19937 rng_;
};

void expect_kept(const Tokenizer& tokenizer, const std::string& name, bool nfc) {
  RandomTexts texts(42);
  for (size_t i = 0; i < text_count(); i++) {
    std::string text = texts.next();
    const std::string decoded = tokenizer.decode(tokenizer.encode(text), true);
    std::string normalized;
    if (nfc && to_nfc(text, normalized)) text = normalized;
    ASSERT_TRUE(decoded == text) << name << ", text " << i << ": " << text << " became " << decoded;
  }
}

TEST(RandomText, IsKeptBySmallTokenizers) {
  expect_kept(*Tokenizer::load(fixture("llama3_like.json")), "llama3_like", false);
}

TEST(RandomText, IsKeptByPublishedTokenizers) {
  for (const std::string& name : test_data_names("tokenizers", ".tokenizer.json.xz")) {
    if (name == "gemma3") continue;  // writes ▁ for a space: texts that have that character are not kept
    const std::string json = read_xz(test_data("tokenizers/" + name + ".tokenizer.json.xz"));
    if (json.empty()) GTEST_SKIP() << "no xz";
    expect_kept(*parse_tokenizer_json(json, "/nonexistent/tokenizer.json"), name, name == "qwen3");
  }
}

PackedChar packed(std::string_view character) {
  PackedChar out;
  for (const char c : character) out.bytes = out.bytes << 8 | static_cast<unsigned char>(c);
  out.length = static_cast<uint32_t>(character.size());
  return out;
}

TEST(Cuts, NeverInsideAToken) {
  Cuts cuts;
  for (const std::string_view token : {"ab", "中文", "é😀", "\xAD\xE6", "\xAD文", "中\xE6\x96", "xyz"}) cuts.add(token);
  EXPECT_TRUE(cuts.joined(packed("a"), packed("b")));
  EXPECT_TRUE(cuts.joined(packed("中"), packed("文")));  // E4 B8 AD, E6 96 87
  EXPECT_TRUE(cuts.joined(packed("é"), packed("😀")));
  EXPECT_TRUE(cuts.joined(packed("x"), packed("y")));
  EXPECT_TRUE(cuts.joined(packed("\u4E2D"), packed("\u6587")));
  EXPECT_TRUE(cuts.joined(packed("\u4EAD"), packed("\u6211")));  // AD, E6: a token of the last byte and the first
  EXPECT_TRUE(cuts.joined(packed("\u4E2D"), packed("\u6585")));  // 中, E6 96: a token ends inside the character
  EXPECT_FALSE(cuts.joined(packed("\u4E2E"), packed("\u6587")));
  EXPECT_FALSE(cuts.joined(packed("b"), packed("a")));
  EXPECT_FALSE(cuts.joined(packed("文"), packed("中")));
}

}  // namespace
}  // namespace ingot
