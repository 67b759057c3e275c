// A tokenizer's tokens as flat tries of their bytes, made once for each model and shared by all of its grammars; with
// the masks that do not depend on a grammar. Making it takes up to 0.1 s: callers do so when the first constrained
// request comes, never before the server is ready.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"
#include "grammar/mask_store.h"
#include "grammar/regex/regex.h"

namespace ingot {
class Tokenizer;
}

namespace ingot::grammar {

// Nodes lie in the order of a walk, each with where its subtree ends: a walk is a loop over an array that jumps over
// what does not match.
struct TrieNode {
  uint32_t end;   // one past the last node of its subtree; its first child is the next node
  int32_t token;  // that ends here; -1: none
  uint8_t byte;   // leads here from its parent
};

// Immutable but for its cache, which is safe for threads.
class Vocabulary {
 public:
  struct Token {
    std::string bytes;     // empty: never comes
    bool special = false;  // its bytes are a name: no text matches it, GrammarBuilder::special_token() alone does
  };
  // `end_tokens` end an answer; they are set in a mask where the grammar may end and match nothing else.
  Vocabulary(std::vector<Token> tokens, std::span<const int32_t> end_tokens);
  // `most`: ids from here on are none of the model's, though its tokenizer has them.
  static std::shared_ptr<const Vocabulary> make(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                                                int most = std::numeric_limits<int>::max());
  ~Vocabulary();

  int size() const { return size_; }                                       // one more than the largest id
  size_t words() const { return (static_cast<size_t>(size_) + 31) / 32; }  // of a mask
  std::span<const int32_t> end_tokens() const { return end_tokens_; }
  bool is_end(int32_t token) const;
  // The special token whose name this is.
  std::optional<int32_t> special_token(std::string_view name) const;
  // What the grammar sees of a token; a special token's is a code that is no UTF-8 (special_code). Empty: never comes.
  std::string_view token_bytes(int32_t token) const;
  size_t longest() const { return longest_; }  // bytes of the longest token
  size_t memory() const;

  // The tries: all tokens, and for each slice those that are not in it.
  const std::vector<TrieNode>& nodes() const { return nodes_; }
  uint32_t root() const { return 0; }
  // Tokens that are some characters of plain_chars(), at most `chars` of them: where a lexeme takes so many, they need
  // no walk. From many to few.
  struct Slice {
    uint32_t chars;              // kUnbounded: all
    std::vector<uint32_t> bits;  // a mask
    uint32_t root;               // of the trie of all other tokens
  };
  std::span<const Slice> slices() const { return slices_; }
  // The same of ASCII letters, for lexemes that take no more than words.
  const Slice& letters() const { return letters_; }
  // All that needs no escape in JSON: no control characters, quotes or backslashes.
  static std::span<const CharRange> plain_chars();
  // Pairs of tokens with equal bytes: the first is in the tries, the second may come where the first may.
  struct Same {
    int32_t first, second;
  };
  std::span<const Same> same() const { return same_; }

  // Masks of JSON's own lexemes, which all grammars share; within some megabytes.
  MaskStore& common_masks() const { return common_masks_; }

 private:
  struct Sorted;
  void make_slices(const std::vector<Sorted>& sorted);
  template <class Inside>
  Slice make_slice(const std::vector<Sorted>& sorted, uint32_t chars, Inside inside);

  int size_ = 0;
  size_t longest_ = 0;
  std::vector<int32_t> end_tokens_;
  std::string arena_;
  std::vector<uint32_t> begins_;  // token t is arena_[begins_[t], begins_[t + 1])
  SeededMap<int32_t> specials_;
  std::vector<TrieNode> nodes_;
  std::vector<Slice> slices_;
  std::vector<Same> same_;
  mutable MaskStore common_masks_;
  Slice letters_;
};

// The bytes that stand for a special token: 0xFF, which no text has, and its id.
std::string special_code(int32_t token);

}  // namespace ingot::grammar
