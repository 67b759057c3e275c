// Masks of lexer states that several grammars have, by what is left of the lexemes. Those of JSON's own lexemes are all
// grammars' (Vocabulary::common_masks); any others are shared by the grammars of one owner alone, since how long a mask
// takes tells whether somebody has asked for it before. Safe for threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"
#include "grammar/account.h"

namespace ingot::grammar {

using TrieNodes = std::vector<uint32_t>;  // some nodes of a vocabulary's trie: the walks below each of them

// The tokens that a walk met, and where lexemes can end within tokens: it depends on no parser.
struct TokenMask {
  std::vector<uint32_t> bits;   // a whole mask, or empty:
  std::vector<int32_t> tokens;  // these alone
  struct Exit {
    uint32_t places;  // which of the state's lexemes end, a bit each
    std::shared_ptr<const TrieNodes> nodes;
  };
  std::vector<Exit> exits;
  size_t memory() const;
};

class MaskStore {
 public:
  // `account`: who counts its bytes; where there is no room for them, it is emptied.
  explicit MaskStore(size_t max_bytes, std::shared_ptr<MemoryAccount> account = nullptr)
      : max_bytes_(max_bytes), counted_(std::move(account)) {}

  std::shared_ptr<const TokenMask> find(const std::string& key) const;
  void keep(const std::string& key, std::shared_ptr<const TokenMask> mask);
  size_t memory() const;
  size_t size() const;

 private:
  using Masks = SeededMap<std::shared_ptr<const TokenMask>>;

  const size_t max_bytes_;
  mutable std::mutex mutex_;  // of what follows
  Masks masks_;
  size_t bytes_ = 0;
  Counted counted_;
};

}  // namespace ingot::grammar
