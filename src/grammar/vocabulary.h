// A tokenizer's tokens as one flat trie of their bytes, made once for each model and shared by all of its grammars;
// with the masks that do not depend on a grammar. Making it takes up to 0.1 s: callers do so when the first constrained
// request comes, never before the server is ready.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/limits.h"

namespace ingot {
class Tokenizer;
}

namespace ingot::grammar {

// Immutable but for its cache, which is safe for threads.
class Vocabulary {
 public:
  struct Token {
    std::string bytes;     // empty: never comes
    bool special = false;  // its bytes are a name: no text matches it, GrammarBuilder::special_token() alone does
  };
  // `end_tokens` end an answer; they are set in a mask where the grammar may end and match nothing else.
  Vocabulary(const std::vector<Token>& tokens, std::span<const int32_t> end_tokens);
  static std::shared_ptr<const Vocabulary> make(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens);
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

 private:
  int size_ = 0;
  size_t longest_ = 0;
  std::vector<int32_t> end_tokens_;
};

// The bytes that stand for a special token: 0xFF, which no text has, and its id.
std::string special_code(int32_t token);

}  // namespace ingot::grammar
