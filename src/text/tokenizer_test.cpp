#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/load/tokenizer_load.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

// A text of `n` random characters of all lengths, many of them from a few kinds that tokenizers treat apart.
std::string random_text(std::mt19937& rng, size_t n) {
  static constexpr uint32_t kSome[] = {' ', ' ',  '\n',  '\t',   '\'',    's',    'A',    'b',    '1',
                                       '.', 0xE9, 0x301, 0x4E2D, 0x1F600, 0x2581, 0x200D, 0xFFFD, 0x17F};
  std::string text;
  for (size_t i = 0; i < n; i++) {
    uint32_t cp = kSome[rng() % std::size(kSome)];
    if (rng() % 3 == 0) cp = static_cast<uint32_t>(rng() % (rng() % 2 ? 0x800 : 0x110000));
    if (cp >= 0xD800 && cp < 0xE000) cp = 'x';
    utf8_append(text, cp);
  }
  return text;
}

TEST(Tokenizer, ByteLevelRoundTrip) {
  const auto tokenizer = Tokenizer::load(fixture("llama3_like.json"));
  std::mt19937 rng(1);
  for (int i = 0; i < 20000; i++) {
    const std::string text = random_text(rng, rng() % 12);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), true), text);
    if (HasFailure()) return;
  }
}

// The cache of words and the two merging loops must not be seen: a long text is its paragraphs.
TEST(Tokenizer, LongTextIsItsParts) {
  for (const char* name : {"llama3_like.json", "o200k_like.json"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    std::mt19937 rng(2);
    std::string text;
    std::vector<Token> parts;
    for (int i = 0; i < 400; i++) {
      std::string part;
      for (int k = 0; k < 8; k++) part += i % 2 ? " king" : " wonderfulness";
      part += "x" + std::string(static_cast<size_t>(rng() % 60), 'a') + ".\nB";
      const std::vector<Token> ids = tokenizer->encode(part);
      parts.insert(parts.end(), ids.begin(), ids.end() - 1);  // B begins a new word with what follows
      text += part.substr(0, part.size() - 1);
    }
    EXPECT_EQ(tokenizer->encode(text), parts) << name;
  }
}

TEST(Tokenizer, SpecialTokensOnlyWhereAskedFor) {
  const auto tokenizer = Tokenizer::load(fixture("llama3_like.json"));
  const Token end = *tokenizer->token_id("<|im_end|>");
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_EQ(tokenizer->token_bytes(end), "<|im_end|>");
  const std::string text = "a<|im_end|>b<|im_end|>c";
  const auto count = [&](const EncodeOptions& options) {
    const std::vector<Token> ids = tokenizer->encode(text, options);
    EXPECT_EQ(tokenizer->decode(ids, true), text);
    return std::count(ids.begin(), ids.end(), end);
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count({.parse_special = true}), 2);
  const TextRange user[] = {{0, 12}};
  EXPECT_EQ(count({.parse_special = true, .plain = user}), 1);
  const TextRange touched[] = {{10, 12}, {15, 16}};
  EXPECT_EQ(count({.parse_special = true, .plain = touched}), 0);
  // Hidden unless shown.
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {.parse_special = true})), "abc");
}

TEST(Tokenizer, BadInput) {
  const auto tokenizer = Tokenizer::load(fixture("llama3_like.json"));
  EXPECT_EQ(error_from([&] { tokenizer->encode("ab\xFFz"); }), "[tokenizer] the text is not UTF-8 at byte 2");
  EXPECT_EQ(error_from([&] { tokenizer->encode("\xED\xA0\x80"); }), "[tokenizer] the text is not UTF-8 at byte 0");
  for (const Token bad : {-1, tokenizer->vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_NE(error_from([&] { tokenizer->decode(std::vector<Token>{0, bad}); }), "") << bad;
    EXPECT_NE(error_from([&] { tokenizer->token_bytes(bad); }), "") << bad;
    EXPECT_FALSE(tokenizer->contains(bad));
  }
  EXPECT_NE(error_from([] { Tokenizer::load("/nonexistent"); }), "");
  EXPECT_NE(error_from([] { Tokenizer::load(INGOT_SOURCE_DIR); }), "");
  EXPECT_NE(error_from([] { Tokenizer::load(std::string(INGOT_SOURCE_DIR "/CMakeLists.txt")); }), "");
}

TEST(Tokenizer, NamesAndEnds) {
  const auto bytes = Tokenizer::load(fixture("llama3_like.json"));
  EXPECT_TRUE(bytes->adds_bos());
  EXPECT_FALSE(bytes->adds_eos());
  EXPECT_EQ(bytes->token_bytes(*bytes->bos()), "<s>");
  EXPECT_EQ(bytes->end_tokens(), std::vector<Token>{*bytes->token_id("<|im_end|>")});
  EXPECT_EQ(bytes->token_id("no such token"), std::nullopt);

  const auto pieces = Tokenizer::load(fixture("tok512.bin"));
  EXPECT_EQ(pieces->vocab_size(), 512);
  EXPECT_EQ(pieces->kind(), "SentencePiece BPE, llama2.c");
  EXPECT_EQ(pieces->end_tokens(), std::vector<Token>{2});
  EXPECT_EQ(pieces->token_bytes(3 + 0x0A), "\n");  // a byte
  EXPECT_EQ(pieces->decode(pieces->encode("Once upon")), "Once upon");
  EXPECT_EQ(pieces->token_bytes(pieces->encode("Once upon")[0])[0], ' ');
}

TEST(Tokenizer, UnsupportedStagesAreNamed) {
  const auto error = [](std::string_view stages) {
    const std::string json = R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},)" + std::string(stages) + "}";
    return error_from([&] { parse_tokenizer_json(json, "/nonexistent/tokenizer.json"); });
  };
  const std::string decoder = R"("decoder":{"type":"Fuse"})";
  EXPECT_EQ(error(decoder), "");
  EXPECT_EQ(error(decoder + R"(,"normalizer":{"type":"Odd"})"), "[tokenizer] the normalizer 'Odd' is not supported");
  EXPECT_EQ(error(decoder + R"(,"pre_tokenizer":{"type":"Odd"})"),
            "[tokenizer] the pre_tokenizer 'Odd' is not supported");
  const std::string split =
      error(decoder + R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a+[b&&c]"},"behavior":"Isolated"})");
  EXPECT_EQ(split.find("[tokenizer] the pattern a+[b&&c] "), 0u) << split;
  EXPECT_EQ(error(R"("decoder":{"type":"Zip"})"), "[tokenizer] the decoder 'Zip' is not supported");
  EXPECT_NE(error(R"("decoder":{"type":"Replace","pattern":{"Regex":"a+[b&&c]"},"content":""})"), "");
  EXPECT_NE(error(R"("decoder":{"type":"BPEDecoder","suffix":""})"), "");
  EXPECT_NE(error(R"("decoder":{"type":"Strip","content":"ab","start":1,"stop":0})"), "");
  EXPECT_EQ(error(R"("decoder":null)"), "");
  EXPECT_NE(error(decoder + R"(,"post_processor":{"type":"X"})"), "");
}

}  // namespace
}  // namespace ingot
