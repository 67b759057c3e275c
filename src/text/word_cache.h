// Tokens of the words that a text repeats. Direct-mapped and bounded: 256 KiB whatever the text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace ingot {

class WordCache {
 public:
  static constexpr size_t kMaxWord = 30;   // bytes of a word that is kept
  static constexpr size_t kMaxTokens = 7;  // and its tokens

  WordCache() : entries_(kEntries) {}

  // Appends the word's tokens and returns true where they are known.
  bool find(std::string_view word, std::vector<Token>& out) const {
    if (word.size() > kMaxWord) return false;
    const Entry& entry = entries_[place(word)];
    if (entry.length != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return true;
  }
  void put(std::string_view word, std::span<const Token> tokens) {
    if (word.size() > kMaxWord || tokens.size() > kMaxTokens) return;
    Entry& entry = entries_[place(word)];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(tokens.size());
    std::copy(word.begin(), word.end(), entry.word.begin());
    std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  }

 private:
  static constexpr size_t kEntries = 4096;
  struct Entry {
    std::array<char, kMaxWord> word;
    uint8_t length = 0;  // 0: free
    uint8_t count = 0;
    std::array<Token, kMaxTokens> tokens;
  };
  static size_t place(std::string_view word) { return hash_bytes(word, 0) >> 52; }

  std::vector<Entry> entries_;
};

}  // namespace ingot
