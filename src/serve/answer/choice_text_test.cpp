// Characters cut at every byte, bytes that are no text, stop strings across tokens.
#include "serve/answer/choice_text.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> kTokenizer = toy_tokenizer();
  return *kTokenizer;
}

std::vector<Token> byte_tokens(std::string_view text) {
  std::vector<Token> tokens;
  for (const char c : text) tokens.push_back(byte_token(static_cast<unsigned char>(c)));
  return tokens;
}

struct Whole {
  std::string text;
  std::vector<ScoredToken> scores;
  std::vector<std::string> pieces;
  std::optional<std::string> stop;
};

Whole run(const std::vector<Token>& tokens, const Generation& generation) {
  ChoiceText text(tokenizer(), generation);
  Whole whole;
  const auto take = [&](TextPiece piece) {
    EXPECT_TRUE(utf8_valid(piece.text));
    whole.text += piece.text;
    if (!piece.text.empty()) whole.pieces.push_back(piece.text);
    for (ScoredToken& score : piece.scores) whole.scores.push_back(std::move(score));
  };
  for (size_t i = 0; i < tokens.size() && !text.stopped(); ++i) {
    take(text.push({.token = tokens[i], .logprob = -static_cast<float>(i), .top = {}}));
  }
  take(text.finish());
  whole.stop = text.matched();
  return whole;
}

Generation with_stops(std::vector<std::string> stops) {
  Generation generation;
  generation.stops = std::move(stops);
  return generation;
}

TEST(ChoiceText, EveryCharacterComesWhole) {
  for (uint32_t cp = 0x80; cp <= 0x10FFFF; cp += cp < 0x800 ? 1 : cp < 0x10000 ? 7 : 331) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    std::string text = "a";
    utf8_append(text, cp);
    text += "b";
    const Whole whole = run(byte_tokens(text), {});
    ASSERT_EQ(whole.text, text) << cp;
    ASSERT_EQ(whole.pieces.size(), 3u) << cp;
  }
}

TEST(ChoiceText, BytesThatAreNoText) {
  // A continuation byte, a cut character, an overlong form, a surrogate.
  for (const std::string text : {"a\x80z", "a\xE2\x82z", "a\xC0\xAFz", "a\xED\xA0\x80z", "\xF0\x9F\x98", "a\xE2\x82"}) {
    const Whole whole = run(byte_tokens(text), {});
    EXPECT_EQ(whole.text, utf8_replace_invalid(text));
    EXPECT_EQ(whole.text, tokenizer().decode(byte_tokens(text)));
  }
}

TEST(ChoiceText, StopStringsSpanTokensAndAreNeverSent) {
  const Whole whole = run(byte_tokens("one two STOP three"), with_stops({"STOP"}));
  EXPECT_EQ(whole.text, "one two ");
  EXPECT_EQ(whole.stop, "STOP");
  for (const std::string& piece : whole.pieces) EXPECT_EQ(piece.find('S'), std::string::npos);

  const Whole almost = run(byte_tokens("one STO two"), with_stops({"STOP"}));
  EXPECT_EQ(almost.text, "one STO two");
  EXPECT_FALSE(almost.stop);
  // What was held back comes when no token follows.
  EXPECT_EQ(run(byte_tokens("one STO"), with_stops({"STOP"})).text, "one STO");
  // A character that is cut, and then a stop string of the replacement that it becomes.
  EXPECT_EQ(run(byte_tokens("ab\xE2\x82"), with_stops({"\xEF\xBF\xBD"})).text, "ab");
}

TEST(ChoiceText, ScoresGoWithTheirText) {
  Generation generation = with_stops({"STOP"});
  generation.sampling.n_logprobs = 0;
  const std::string text = "h\xC3\xA9 STO\xE2\x82\xACx";
  const Whole whole = run(byte_tokens(text), generation);
  EXPECT_EQ(whole.text, text);
  ASSERT_EQ(whole.scores.size(), text.size());  // one token for each byte
  for (size_t i = 0; i < whole.scores.size(); ++i) EXPECT_EQ(whole.scores[i].logprob, -static_cast<float>(i));
  EXPECT_EQ(whole.scores.back().offset, 7u);  // characters, not bytes

  const Whole cut = run(byte_tokens("abcSTOP"), generation);
  EXPECT_EQ(cut.text, "abc");
  EXPECT_EQ(cut.scores.size(), 3u);
}

TEST(ChoiceText, ControlTokensAndIdsBeyondTheTokenizerAreNoText) {
  std::vector<Token> tokens = byte_tokens("ab");
  tokens.insert(tokens.begin() + 1, {0, 1, 5000});
  EXPECT_EQ(run(tokens, {}).text, "ab");
}

}  // namespace
}  // namespace ingot
