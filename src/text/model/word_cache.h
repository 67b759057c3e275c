// Tokens of the words that texts repeat. Two places for each hash and bounded: 2 MiB whatever the texts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "text/model/vocab.h"

namespace ingot {

class WordCache {
 public:
  static constexpr size_t kMaxWord = 32;   // bytes of a word that is kept
  static constexpr size_t kMaxTokens = 7;  // and its tokens

  // Memory is touched where a word is kept, and only there: a short text costs no clearing of 2 MiB.
  WordCache() : memory_(std::calloc((kEntries + 1) * sizeof(Entry), 1)) {
    if (!memory_) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    entries_ = reinterpret_cast<Entry*>((address + sizeof(Entry) - 1) / sizeof(Entry) * sizeof(Entry));
  }

  // A word and its place. `kind` keeps words apart that have the same bytes and not the same tokens: 0 to 3.
  // REQUIRES: 1 to kMaxWord bytes.
  class Key {
   public:
    Key(std::string_view word, uint8_t kind) : length_(static_cast<uint8_t>(word.size() << 2 | kind)) {
      const char* p = word.data();
      const size_t n = word.size();
      const ShortString head = short_string(p, std::min<size_t>(n, 16));
      words_ = {head.first, head.last, 0, 0};
      hash_ = mix(head.first ^ kSeed, head.last ^ length_ ^ kOther);
      if (n > 16) {
        words_[2] = load_u64(p + n - 16);
        words_[3] = load_u64(p + n - 8);
        hash_ = mix(hash_ ^ words_[2], words_[3] ^ kOther);
      }
    }

   private:
    friend class WordCache;
    static constexpr uint64_t kSeed = 0x8EBC6AF09C88C6E3u, kOther = 0x589965CC75374CC3u;
    std::array<uint64_t, 4> words_;
    uint64_t hash_;
    uint8_t length_;
  };

  // Appends the word's tokens and returns true where they are known.
  bool find(const Key& key, std::vector<Token>& out) const {
    const Entry* bucket = entries_ + place(key);
    for (size_t way = 0; way < kWays; way++) {
      const Entry& entry = bucket[way];
      if (entry.length != key.length_ || !same(entry.words, key.words_)) continue;
      if (entry.count == 1) {
        out.push_back(entry.tokens[0]);
      } else {
        out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
      }
      return true;
    }
    return false;
  }
  bool find(std::string_view word, uint8_t kind, std::vector<Token>& out) const {
    return !word.empty() && word.size() <= kMaxWord && find(Key(word, kind), out);
  }
  // REQUIRES: find() said no.
  void put(const Key& key, std::span<const Token> tokens) {
    if (tokens.size() > kMaxTokens) return;
    Entry* bucket = entries_ + place(key);
    if (bucket[0].length != 0) bucket[1] = bucket[0];
    Entry& entry = bucket[0];
    entry.words = key.words_;
    entry.length = key.length_;
    entry.count = static_cast<uint8_t>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  }
  void put(std::string_view word, uint8_t kind, std::span<const Token> tokens) {
    if (!word.empty() && word.size() <= kMaxWord) put(Key(word, kind), tokens);
  }

 private:
  static constexpr size_t kWays = 2;
  static constexpr size_t kEntries = size_t{1} << 15;
  struct Entry {  // one cache line
    std::array<uint64_t, 4> words;
    uint8_t length;  // 0: free
    uint8_t count;
    std::array<Token, kMaxTokens> tokens;
  };
  static_assert(sizeof(Entry) == 64);
  static bool same(const std::array<uint64_t, 4>& a, const std::array<uint64_t, 4>& b) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
  }
  static size_t place(const Key& key) { return (key.hash_ & (kEntries / kWays - 1)) * kWays; }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  Entry* entries_ = nullptr;
};

}  // namespace ingot
