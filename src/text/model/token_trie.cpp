#include "text/model/token_trie.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

namespace {

struct Key {
  std::string_view text;
  Token token;
};

// The keys [begin, end) share their first `depth` bytes, which lead to `node`.
struct Range {
  uint32_t node;
  uint32_t begin;
  uint32_t end;
  uint32_t depth;
};

std::vector<Key> sorted_keys(const Vocab& vocab) {
  std::vector<Key> keys;
  for (Token token = 0; token < static_cast<Token>(vocab.size()); token++) {
    const TokenKind kind = vocab.kind(token);
    const std::string_view text = vocab.bytes(token);
    if (kind == TokenKind::kUnused || kind == TokenKind::kAbsent) continue;
    if (text.empty() || vocab.find(text) != token) continue;
    if (text.size() > TokenTrie::kMaxLength) {
      throw Error("[tokenizer] token {} ('{}') has {} bytes, at most {} allowed", token, utf8_printable(text),
                  text.size(), TokenTrie::kMaxLength);
    }
    keys.push_back({text, token});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.text < b.text; });
  return keys;
}

}  // namespace

TokenTrie::TokenTrie(const Vocab& vocab) {
  const std::vector<Key> keys = sorted_keys(vocab);
  // Breadth first, so that a node's children are made one after the other.
  std::vector<Range> ranges = {{kRoot, 0, static_cast<uint32_t>(keys.size()), 0}};
  for (size_t i = 0; i < ranges.size(); i++) {
    const Range range = ranges[i];
    uint32_t at = range.begin;
    if (at < range.end && keys[at].text.size() == range.depth) nodes_[range.node].token = keys[at++].token;
    nodes_[range.node].first = static_cast<Node>(nodes_.size());
    while (at < range.end) {
      const char byte = keys[at].text[range.depth];
      uint32_t end = at + 1;
      while (end < range.end && keys[end].text[range.depth] == byte) end++;
      ranges.push_back({static_cast<uint32_t>(nodes_.size()), at, end, range.depth + 1});
      nodes_.emplace_back();
      labels_.push_back(byte);
      at = end;
    }
    nodes_[range.node].children = static_cast<uint32_t>(nodes_.size()) - nodes_[range.node].first;
  }
  for (uint32_t i = 0; i < nodes_[kRoot].children; i++) {
    const Node child = nodes_[kRoot].first + i;
    roots_[static_cast<unsigned char>(labels_[child])] = child;
  }
}

}  // namespace ingot
