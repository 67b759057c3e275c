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

#include "text/model/merge.h"
#include "text/model/token_model.h"
#include "text/model/vocab.h"
#include "text/split/cuts.h"

namespace ingot {

// (left, right) → (rank, token): open addressing, a power of two, at most two thirds full. A slot has half of the hash
// and the rank, by which the pair is found: 8 bytes for most of the looks, which find nothing.
class MergeTable {
 public:
  void reserve(size_t merges);
  // A merge of the next rank. The first rank of a pair stays where it is given twice.
  void add(Token left, Token right, Token whole);
  // One that no text takes: it has a rank all the same.
  void skip() { pairs_.push_back({kNoToken, kNoToken, kNoToken}); }
  size_t size() const { return pairs_.size(); }

  Merge find(Token left, Token right) const {
    if (slots_.empty()) return kNoMerge;
    const uint64_t hash = hash_of(left, right);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    for (size_t i = hash & mask_; slots_[i].rank != kNoRank; i = (i + 1) & mask_) {
      if (slots_[i].tag != tag) continue;
      const Pair& pair = pairs_[slots_[i].rank];
      if (pair.left == left && pair.right == right) return {slots_[i].rank, pair.whole};
    }
    return kNoMerge;
  }

 private:
  struct Slot {
    uint32_t tag;
    uint32_t rank;  // kNoRank: free
  };
  struct Pair {
    Token left, right, whole;
  };
  // A plain multiplication clusters: ids of pairs that merge are close to each other, in both halves of the key.
  uint64_t hash_of(Token left, Token right) const {
    return mix((static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right)) ^ seed_);
  }
  void rehash(size_t slots);

  std::vector<Slot> slots_;
  std::vector<Pair> pairs_;  // by rank
  size_t used_ = 0;
  size_t mask_ = 0;                // slots_.size() - 1
  uint64_t seed_ = random_seed();  // so that no file can be made whose pairs all collide
};

// The token of each character that is one, two looks away.
class CharacterTokens {
 public:
  void add(uint32_t cp, Token token);
  Token find(uint32_t cp) const {
    const size_t page = cp >> 8;
    return page < pages_.size() && pages_[page] != 0 ? tokens_[(pages_[page] - size_t{1}) << 8 | (cp & 0xFF)]
                                                     : kNoToken;
  }

 private:
  std::vector<uint16_t> pages_;  // by cp >> 8: a page of tokens_ + 1, or 0
  std::vector<Token> tokens_;
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

// Holds a pointer to its vocabulary, which must outlive it. Text becomes a control token only with
// ModelScratch::control.
class Bpe final : public TokenModel {
 public:
  // `scores`: one for each token, with by_score only. Throws Error where one is not finite.
  Bpe(const Vocab& vocab, BpeOptions options, std::span<const float> scores = {});

  void reserve_merges(size_t n) { table_.reserve(n); }
  // One merge, of the next rank. Throws Error when left, right or both together are no token.
  void add_merge(std::string_view left, std::string_view right);
  // The tokens of a merge, kNoToken where one is missing. `guess` is tried first for the whole, `joined` is room for
  // it. Any number of threads may ask at once.
  struct MergeIds {
    Token left, right, whole;
    bool complete() const { return left != kNoToken && right != kNoToken && whole != kNoToken; }
  };
  MergeIds merge_ids(std::string_view left, std::string_view right, Token guess, std::string& joined) const;
  // The same where the tokens are known. REQUIRES: all three are in the vocabulary.
  void add_merge(Token left, Token right, Token whole);
  // A merge of the next rank that no text takes.
  void skip_merge() { table_.skip(); }
  // What two neighbours become by the merges added so far; kNoMerge: nothing.
  Merge find_merge(Token left, Token right) const { return table_.find(left, right); }

  void encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override;

  const BpeOptions& options() const { return options_; }

 private:
  void index_tokens();
  void start_bytes(std::string_view word, ModelScratch& scratch) const;
  void start_characters(std::string_view word, ModelScratch& scratch) const;
  bool push_fallback(std::string_view character, ModelScratch& scratch) const;
  void emit_scored(std::string_view word, const ModelScratch& scratch, std::vector<Token>& out) const;
  void merge_scored(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const;
  void merge_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const;
  void encode_whole(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const;
  void encode_part(std::string_view part, ModelScratch& scratch, std::vector<Token>& out) const;
  void encode_parts(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const;
  bool takes_part(Token token);
  // The token, or kNoToken where text may not become it.
  Token open(Token token, const ModelScratch& scratch) const {
    const bool hidden = has_control_ && !scratch.control && token != kNoToken;
    return hidden && vocab_->kind(token) == TokenKind::kControl ? kNoToken : token;
  }
  Merge open(Merge merge, const ModelScratch& scratch) const {
    return open(merge.token, scratch) == kNoToken ? kNoMerge : merge;
  }
  Token named(std::string_view text, const ModelScratch& scratch) const {
    const Token token = vocab_->find(text);
    return token == kNoToken || vocab_->kind(token) == TokenKind::kUnknown ? kNoToken : open(token, scratch);
  }
  WordCache::Key cache_key(std::string_view word, uint8_t kind, const ModelScratch& scratch) const {
    return {word, static_cast<uint8_t>(has_control_ && scratch.control ? kind | 2 : kind)};
  }
  bool affixed() const { return !options_.prefix.empty() || !options_.suffix.empty(); }
  bool may_cut_before(uint32_t cp, const ModelScratch& scratch) const;

  const Vocab* vocab_ = nullptr;
  BpeOptions options_;
  MergeTable table_;
  std::vector<Merge> byte_merges_;     // byte_level: of two bytes, first << 8 | second
  std::vector<uint32_t> score_ranks_;  // by_score: of each token
  std::array<Token, 256> bytes_{};     // the token of a byte
  bool all_bytes_ = false;             // each has one that text may become: nothing is unknown
  bool has_control_ = false;           // text could become a control token
  bool cuts_allowed_ = true;  // false: a merge takes a byte of the fallback, whose neighbours cuts_ cannot know
  CharacterTokens characters_;
  Cuts cuts_;
  std::string joined_;           // of add_merge
  Token last_whole_ = kNoToken;  // what the last merge made
};

}  // namespace ingot
