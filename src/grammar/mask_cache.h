// Masks by state of the lexer, without the parser: which tokens lie within the lexemes under way, and at which nodes of
// the vocabulary's trie lexemes end, so that what follows there is the parser's matter. Shared by all matchers of a
// grammar; those of states that other grammars have too are taken from a store (mask_store.h). Safe for threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "grammar/lexer.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

class MaskCache {
 public:
  // `own`: what the grammars of one owner share.
  MaskCache(const Vocabulary& vocabulary, Lexer& lexer, std::shared_ptr<MaskStore> own, const Limits& limits);

  using NodesId = uint32_t;             // some nodes of the trie, by number
  static constexpr NodesId kWhole = 0;  // its root

  struct Entry {
    std::shared_ptr<const TokenMask> mask;  // bits and tokens
    struct Exit {
      uint32_t accepts;  // the lexer's number of the lexemes that end
      NodesId nodes;     // where they do
    };
    std::vector<Exit> exits;
  };

  // Of the walks below `nodes` that begin in `state`. Adds what it cost to `steps`; throws LimitError when that goes
  // beyond the limit.
  std::shared_ptr<const Entry> get(NodesId nodes, LexState state, size_t& steps);
  // Both without a lock.
  size_t memory() const { return entry_bytes_ + node_bytes_; }
  // Half of what is never given back has been taken: whoever comes next had better begin anew.
  bool worn() const { return node_bytes_ > limits_.cache_bytes / 2; }

 private:
  struct Walk;
  struct WalkBeside;
  std::shared_ptr<const Entry> make(NodesId nodes, LexState state, size_t& steps);
  std::shared_ptr<TokenMask> walk(NodesId nodes, LexState state, Walk& walk, size_t& steps);
  std::shared_ptr<TokenMask> walk_beside(LexState like, LexState state, Walk& walk, size_t& steps);
  const Vocabulary::Slice* slice_for(LexState state);
  LexState permissive_after(LexState state);
  std::shared_ptr<const TrieNodes> nodes_of(NodesId nodes) const;
  NodesId number_of(std::shared_ptr<const TrieNodes> nodes);
  void charge(size_t walked, size_t& steps) const;

  const Vocabulary& vocabulary_;
  Lexer& lexer_;
  const std::shared_ptr<MaskStore> own_;
  const Limits limits_;

  mutable std::shared_mutex mutex_;  // of what follows
  std::unordered_map<uint64_t, std::shared_ptr<const Entry>> entries_;
  std::vector<std::shared_ptr<const TrieNodes>> nodes_;
  std::unordered_multimap<uint64_t, NodesId> by_hash_;
  std::atomic<size_t> entry_bytes_{0}, node_bytes_{0};
};

}  // namespace ingot::grammar
