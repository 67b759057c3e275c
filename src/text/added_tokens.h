// Tokens that are found in a text as a whole, before normalization, splitting or merging touch it: control tokens and
// those that somebody added to a vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/model/vocab.h"
#include "text/split/normalizer.h"

namespace ingot {

struct AddedToken {
  Token id = kNoToken;
  std::string content = {};
  bool special = false;      // found only where special tokens are asked for
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the White_Space before it along
  bool rstrip = false;       // and the White_Space behind it
  bool normalized = false;   // looked for in the normalized text, in its own normalized form

  // Special, or in the form of a control token: "<|…|>" or "<｜…｜>". Some vocabularies do not flag the tokens that
  // separate their turns as special; users must not write those either.
  bool is_control() const;
};

struct TextRange {
  size_t begin;
  size_t end;
};

// Whether [begin, end) shares a byte with one of the ranges, which are sorted and disjoint.
bool overlaps(std::span<const TextRange> ranges, size_t begin, size_t end);

// A part of a text: an added token, or text between (kNoToken).
struct Segment {
  size_t begin;
  size_t end;
  Token token;
};

// The longest of many strings at a place: a trie over bytes.
class ByteTrie {
 public:
  // False where `key` is in already; the first value stays. REQUIRES: key is not empty, value >= 0.
  bool insert(std::string_view key, int32_t value);
  // The value of `key`, which is inserted where it is not in: -1 then. REQUIRES: key is not empty.
  int32_t& at(std::string_view key);
  struct Match {
    int32_t value = -1;
    size_t length = 0;
  };
  Match longest(std::string_view text, size_t pos) const;
  bool empty() const { return nodes_.empty(); }
  // The first place from `pos` on where a key may begin, or text.size().
  size_t next_begin(std::string_view text, size_t pos) const;
  bool begins_with(char byte) const { return roots_[static_cast<unsigned char>(byte)] != 0; }

 private:
  struct Node {
    int32_t child = -1;    // the first
    int32_t sibling = -1;  // the next with the same parent
    int32_t value = -1;
    char byte = 0;
  };
  std::array<int32_t, 256> roots_{};  // by first byte: a node + 1, or 0
  size_t root_count_ = 0;
  char only_root_ = 0;  // where root_count_ is 1
  std::vector<Node> nodes_;
};

class AddedTokens {
 public:
  // Throws Error where a token is empty or longer than 4096 bytes (a token's length bounds the time for each byte of
  // text). A second token of the same content is ignored. Of two whose normalized forms are the same a special one is
  // found, then the first.
  void add(AddedToken token, const Normalizer& normalizer);

  struct Options {
    bool special = false;              // find special tokens
    std::span<const TextRange> plain;  // sorted: in these bytes control tokens are text all the same
    size_t offset = 0;                 // where `text` begins in what `plain` counts
  };
  // Cuts `text` into segments, those found before normalization (`normalized` false) or behind it. Leftmost first,
  // of several at a place the longest. `out` is overwritten.
  void split(std::string_view text, bool normalized, const Options& options, std::vector<Segment>& out) const;

  bool any_normalized() const { return !normalized_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie raw_;
  ByteTrie normalized_;
  ByteTrie contents_;
};

}  // namespace ingot
