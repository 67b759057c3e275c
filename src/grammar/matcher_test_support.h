// Grammars against the plain way: each token tried alone, byte by byte, by a matcher that shares nothing but the
// grammar and the derivatives of its expressions.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/plain_matcher_test_support.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

// clang-format off
inline constexpr const char* kPieces[] = {
    "\"", "{\"", "\":", "\": ", "\": \"", "\",", "\", \"", "\",\n", "\"}", "\"},", "\"}, {\"", "[[", "]]",
    "],", "}]", "}}", "[\"", "\"]", "true", "false", "null", "tr", "ue,", "12", "123", "0.5", "1e", "-1", "1,",
    ", 2", "12]", " \"", "  ", "\n", "\n  ", "\n    ", " {", "{}", "[]", "{\"a\":1}", "name", "na", "me\":",
    "age", "hello", " hello", "abc", "ab", "bc", "aaaa", "aa", "\\n", "\\\"", "\\u00", "\\", "caf\xC3", "\xA9",
    "\xC3\xA9", "\xF0\x9F", "\x98\x80", "\xF0\x9F\x98\x80", "a long piece of plain text", "(", "((", "))",
    "()", "+", "1+", "+1", "*(", "north", "south", "no", "<tool>", "</tool>", "\": [", "\": {", "\": {\"",
    "x\",\"", "b\": true", "e, \"", "l}", "}\n", "\r\n"};
// clang-format on

// All single bytes, pieces of JSON and of words that cross the ends of lexemes, two special tokens, two with equal
// bytes; the last token is the end.
inline std::vector<Vocabulary::Token> small_tokens() {
  std::vector<Vocabulary::Token> tokens;
  for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  for (const char* text : kPieces) {
    tokens.push_back({text, false});
  }
  tokens.push_back({"abc", false});  // again
  tokens.push_back({"<|call|>", true});
  tokens.push_back({"<|other|>", true});
  tokens.push_back({"", false});
  tokens.push_back({"<|end|>", true});
  return tokens;
}

inline std::shared_ptr<const Vocabulary> small_vocabulary() {
  static const auto vocabulary = [] {
    const std::vector<Vocabulary::Token> tokens = small_tokens();
    const int32_t end = static_cast<int32_t>(tokens.size()) - 1;
    return std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
  }();
  return vocabulary;
}

inline std::vector<uint32_t> mask_of(Matcher& matcher) {
  std::vector<uint32_t> words(matcher.compiled().vocabulary().words(), 0xAAAAAAAA);
  EXPECT_TRUE(matcher.mask(words)) << matcher.failure();
  return words;
}

inline bool in_mask(const std::vector<uint32_t>& words, int32_t token) {
  return (words[static_cast<size_t>(token) / 32] >> (token & 31) & 1) != 0;
}

// The first token of which mask and plain matcher think otherwise; -1: none.
inline int32_t first_difference(const std::vector<uint32_t>& words, PlainMatcher& plain, const Vocabulary& vocabulary) {
  std::array<char, 256> begins{};
  for (size_t byte = 0; byte < begins.size(); byte++) {
    const char one = static_cast<char>(byte);
    begins[byte] = plain.goes_on(std::string_view(&one, 1));
  }
  for (int32_t token = 0; token < vocabulary.size(); token++) {
    const std::string_view bytes = vocabulary.token_bytes(token);
    const bool alone = vocabulary.is_end(token)
                           ? plain.may_end()
                           : !bytes.empty() && begins[static_cast<uint8_t>(bytes[0])] != 0 && plain.goes_on(bytes);
    if (alone != in_mask(words, token)) return token;
  }
  return -1;
}

// Random walk: at each step the mask equals each token tried alone (every `check_every` steps; 0: never) and has at
// least one. Ends after `steps`, or begins anew where nothing but the end may come, or after `most` tokens. Returns the
// number of answers that ended; -1 after a failure.
inline int random_walk(const std::shared_ptr<const Compiled>& compiled, uint32_t seed, int steps, int check_every,
                       int most = 1'000'000) {
  std::mt19937 random(seed);
  const Vocabulary& vocabulary = compiled->vocabulary();
  auto matcher = std::make_unique<Matcher>(compiled);
  PlainMatcher plain(std::shared_ptr<const Grammar>(compiled, &compiled->grammar()));
  plain.begin();
  int ended = 0, length = 0;
  for (int step = 0; step < steps; step++) {
    const std::vector<uint32_t> words = mask_of(*matcher);
    if (matcher->failed()) return -1;
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < vocabulary.size(); token++) {
      if (in_mask(words, token)) allowed.push_back(token);
    }
    if (allowed.empty()) {
      ADD_FAILURE() << "an empty mask";
      return -1;
    }
    if (check_every > 0 && step % check_every == 0) {
      if (const int32_t token = first_difference(words, plain, vocabulary); token >= 0) {
        ADD_FAILURE() << "token " << token << " '" << vocabulary.token_bytes(token) << "': in the mask "
                      << in_mask(words, token);
        return -1;
      }
    }
    const int32_t token = allowed[random() % allowed.size()];
    EXPECT_TRUE(matcher->advance(token));
    if (check_every > 0 && !vocabulary.is_end(token) && !plain.follow(vocabulary.token_bytes(token))) {
      ADD_FAILURE() << "token " << token << " came and may not";
      return -1;
    }
    ended += matcher->complete();
    if (matcher->complete() || ++length >= most) {
      matcher = std::make_unique<Matcher>(compiled);
      plain.begin();
      length = 0;
    }
  }
  return ended;
}

}  // namespace ingot::grammar
