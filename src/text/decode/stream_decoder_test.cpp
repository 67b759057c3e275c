#include "text/decode/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/tokenizers_test_support.h"

namespace ingot {
namespace {

// All texts pushed, each checked to be whole characters, then the rest.
std::string stream(const Tokenizer& tokenizer, const std::vector<Token>& tokens, StreamDecoderOptions options = {}) {
  StreamDecoder decoder(tokenizer, options);
  std::string all;
  for (const Token token : tokens) {
    const std::string text = decoder.push(token);
    EXPECT_TRUE(utf8_valid(text));
    all += text;
  }
  return all + decoder.finish();
}

TEST(StreamDecoder, EqualsDecodeForAnyTokens) {
  for (const char* name : {"llama3_like.json", "llama2_like.json", "mistral_like.json", "tok512.bin"}) {
    const auto tokenizer = Tokenizer::load(fixture(name));
    std::mt19937 rng(3);
    for (int i = 0; i < 3000; i++) {
      std::vector<Token> tokens(rng() % 20);
      // Half of them bytes, so that characters are cut and broken.
      for (Token& token : tokens) token = static_cast<Token>(rng() % (rng() % 2 ? 260 : 512));
      for (const bool show : {false, true}) {
        EXPECT_EQ(stream(*tokenizer, tokens, {.show_special = show}), tokenizer->decode(tokens, show)) << name;
      }
      if (HasFailure()) return;
    }
  }
}

// Every character, written byte by byte, comes out whole with its last byte and not before.
TEST(StreamDecoder, NeverSplitsACharacter) {
  const auto tokenizer = Tokenizer::load(fixture("tok512.bin"));
  for (uint32_t cp = 0x80; cp < 0x110000; cp += cp < 0x3000 ? 1 : 97) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    std::string text;
    utf8_append(text, cp);
    StreamDecoder decoder(*tokenizer);
    for (size_t i = 0; i < text.size(); i++) {
      const std::string out = decoder.push(3 + static_cast<unsigned char>(text[i]));
      ASSERT_EQ(out, i + 1 == text.size() ? text : "") << cp;
    }
    ASSERT_EQ(decoder.finish(), "");
  }
}

TEST(StreamDecoder, InvalidBytes) {
  const auto tokenizer = Tokenizer::load(fixture("tok512.bin"));
  const auto bytes = [&](std::string_view text) {
    std::vector<Token> tokens;
    for (const char c : text) tokens.push_back(3 + static_cast<unsigned char>(c));
    return stream(*tokenizer, tokens);
  };
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(bytes("\xE4\xB8"), bad);                  // cut short
  EXPECT_EQ(bytes("\xE4\xB8!"), bad + "!");           // one subpart
  EXPECT_EQ(bytes("\xFF\xFE"), bad + bad);            // two bytes that begin nothing
  EXPECT_EQ(bytes("\xED\xA0\x80"), bad + bad + bad);  // a surrogate
  EXPECT_EQ(bytes("\xF0\x9F\xF0\x9F\x98\x80"), bad + "\xF0\x9F\x98\x80");
}

TEST(StreamDecoder, LeadingSpace) {
  const auto tokenizer = Tokenizer::load(fixture("tok512.bin"));
  const std::vector<Token> tokens = tokenizer->encode("Once upon");
  EXPECT_EQ(stream(*tokenizer, tokens), "Once upon");
  EXPECT_EQ(stream(*tokenizer, tokens, {.continues = true}), " Once upon");
  const std::vector<Token> framed = tokenizer->encode("Once upon", {.add_special = true});
  EXPECT_EQ(stream(*tokenizer, framed), "Once upon");
  EXPECT_EQ(stream(*tokenizer, framed, {.show_special = true}), "<s> Once upon");
}

}  // namespace
}  // namespace ingot
