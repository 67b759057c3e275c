// Byte-pair encoding: words to tokens by merging neighbours. Three kinds in one: merges by a ranked list of pairs over
// bytes (GPT-2 and its heirs) or over characters, and merges by the score of what comes out (SentencePiece).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/merge.h"
#include "text/token_model.h"
#include "text/vocab.h"

namespace ingot {

// (left, right) → (rank, token): open addressing, a power of two, at most half full.
class MergeTable {
 public:
  void reserve(size_t merges);
  // The first rank of a pair stays where it is given twice.
  void add(Token left, Token right, Merge merge);
  Merge find(Token left, Token right) const {
    if (slots_.empty()) return kNoMerge;
    const uint64_t key = key_of(left, right);
    for (size_t i = place(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kFree) return kNoMerge;
    }
  }

 private:
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;  // of no pair of tokens: those are not negative
  static uint64_t key_of(Token left, Token right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // A plain multiplication clusters: ids of pairs that merge are close to each other, in both halves of the key.
  size_t place(uint64_t key) const { return mix(key ^ seed_) & (slots_.size() - 1); }
  void rehash(size_t slots);

  std::vector<Slot> slots_;
  size_t used_ = 0;
  uint64_t seed_ = random_seed();  // so that no file can be made whose pairs all collide
};

struct BpeOptions {
  bool byte_level = false;     // symbols are bytes; otherwise characters
  bool by_score = false;       // merge by score of the result; otherwise by the list of pairs
  bool byte_fallback = false;  // a character without a token becomes its bytes' tokens
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  bool ignore_merges = false;  // a word that is a token is that token
  Token unknown = kNoToken;    // kNoToken: unknown characters vanish
  // Characters only. How a word's characters are named: all but the first behind `prefix`, the last before `suffix`. A
  // merge drops the prefix of its right part.
  std::string prefix = {};
  std::string suffix = {};
};

// Holds a pointer to its vocabulary, which must outlive it.
class Bpe final : public TokenModel {
 public:
  // `scores`: one for each token, with by_score only. Throws Error where one is not finite.
  Bpe(const Vocab& vocab, BpeOptions options, std::span<const float> scores = {});

  // One merge, of the next rank. Throws Error when left, right or both together are no token.
  void reserve_merges(size_t n) { table_.reserve(n); }
  void add_merge(std::string_view left, std::string_view right);
  // The same where the tokens are known. REQUIRES: all three are in the vocabulary.
  void add_merge(Token left, Token right, Token whole);
  // What two neighbours become by the merges added so far; kNoMerge: nothing.
  Merge find_merge(Token left, Token right) const { return table_.find(left, right); }

  void encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override;

  const BpeOptions& options() const { return options_; }

 private:
  Token character(std::string_view text) const;
  void start_bytes(std::string_view word, Symbols& symbols) const;
  void start_characters(std::string_view word, Symbols& symbols) const;
  bool push_fallback(std::string_view character, size_t end, Symbols& symbols) const;
  void emit_scored(std::string_view word, const Symbols& symbols, std::vector<Token>& out) const;
  void merge_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const;
  void encode_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const;
  bool takes_part(Token token) const;
  bool affixed() const { return !options_.prefix.empty() || !options_.suffix.empty(); }

  const Vocab* vocab_ = nullptr;
  BpeOptions options_;
  MergeTable table_;
  std::vector<uint32_t> score_ranks_;        // by_score: of each token
  std::array<Token, 256> bytes_{};           // the token of a byte
  std::array<Token, 128> ascii_{};           // the token of an ASCII character
  std::array<bool, 256> joins_underline_{};  // a token has ▁ behind a character that ends with this byte
  uint32_t next_rank_ = 0;
  std::string joined_;           // of add_merge
  Token last_whole_ = kNoToken;  // what the last merge made
};

}  // namespace ingot
