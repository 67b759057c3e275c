// The tokens of a vocabulary that begin at a place of a text, in one walk: an immutable trie over bytes. The children
// of a node lie side by side, their bytes too, so that a step is one search through at most 256 neighbouring bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "text/model/vocab.h"

namespace ingot {

class TokenTrie {
 public:
  // A token's length bounds the time for each byte of text.
  static constexpr size_t kMaxLength = 4096;

  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = UINT32_MAX;

  TokenTrie() = default;
  // The tokens of the vocabulary's table of bytes but for unused ones. Whether text may become a control token is for
  // the caller to say. Throws Error where one is longer than kMaxLength.
  explicit TokenTrie(const Vocab& vocab);

  // The child of `node` by `byte`, or kNone.
  Node step(Node node, char byte) const {
    if (node == kRoot) return roots_[static_cast<unsigned char>(byte)];
    const Entry& entry = nodes_[node];
    if (entry.children == 0) return kNone;
    const char* labels = labels_.data() + entry.first;
    const auto* found = static_cast<const char*>(std::memchr(labels, byte, entry.children));
    return found == nullptr ? kNone : entry.first + static_cast<Node>(found - labels);
  }
  // The node that `text` leads to, or kNone.
  Node walk(Node node, std::string_view text) const {
    for (const char byte : text) {
      if (node == kNone) return kNone;
      node = step(node, byte);
    }
    return node;
  }
  // The token that ends at the node, or kNoToken.
  Token token(Node node) const { return nodes_[node].token; }

 private:
  struct Entry {
    Node first = 0;  // the children: nodes [first, first + children), their bytes in labels_
    uint32_t children = 0;
    Token token = kNoToken;
  };
  std::vector<Entry> nodes_ = {Entry{}};
  std::string labels_ = std::string(1, '\0');  // by which byte a node is reached
  std::array<Node, 256> roots_ = none();

  static constexpr std::array<Node, 256> none() {
    std::array<Node, 256> nodes{};
    nodes.fill(kNone);
    return nodes;
  }
};

}  // namespace ingot
