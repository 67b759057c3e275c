#include "grammar/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace ingot::grammar {
namespace {

constexpr size_t kCommonBytes = size_t{8} << 20;  // of masks that all grammars share

constexpr std::array<CharRange, 4> kPlain = {CharRange{0x20, 0x21}, CharRange{0x23, 0x5B}, CharRange{0x5D, 0x7E},
                                             CharRange{0x80, 0x10FFFF}};

// Characters of a token that is made of plain characters alone; 0: it is not.
uint32_t plain_length(std::string_view bytes) {
  uint32_t count = 0;
  for (size_t pos = 0; pos < bytes.size(); count++) {
    uint32_t cp = 0;
    const size_t length = utf8_decode(bytes, pos, cp);
    if (length == 0 || cp < 0x20 || cp == '"' || cp == '\\' || cp == 0x7F) return 0;
    pos += length;
  }
  return count;
}

void set_bit(std::vector<uint32_t>& bits, int32_t token) {
  bits[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token & 31);
}

}  // namespace

// A token on its way into the tries: `head` orders as its first eight bytes do.
struct Vocabulary::Sorted {
  uint64_t head;
  std::string_view bytes;
  int32_t token;

  bool operator<(const Sorted& other) const {
    if (head != other.head) return head < other.head;
    const int order = bytes.compare(other.bytes);
    return order != 0 ? order < 0 : token < other.token;
  }
};

namespace {

uint64_t head_of(std::string_view bytes) {
  uint64_t head = 0;
  for (size_t i = 0; i < 8; i++) head = head << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0);
  return head;
}

// Appends the trie of what `take` accepts and returns its root.
template <class Tokens, class Take>
uint32_t append_trie(const Tokens& sorted, Take take, std::vector<TrieNode>& nodes) {
  const auto root = static_cast<uint32_t>(nodes.size());
  nodes.push_back({0, -1, 0});
  std::vector<uint32_t> path = {root};  // of the last token's bytes
  std::string_view last;
  const auto leave_to = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) nodes[path.back()].end = static_cast<uint32_t>(nodes.size());
  };
  for (const auto& token : sorted) {
    if (!take(token)) continue;
    const size_t most = std::min(last.size(), token.bytes.size());
    size_t shared = 0;
    while (shared < most && last[shared] == token.bytes[shared]) shared++;
    leave_to(shared);
    for (size_t i = shared; i < token.bytes.size(); i++) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({0, -1, static_cast<uint8_t>(token.bytes[i])});
    }
    nodes.back().token = token.token;
    last = token.bytes;
  }
  leave_to(0);
  nodes[root].end = static_cast<uint32_t>(nodes.size());
  return root;
}

}  // namespace

std::string special_code(int32_t token) {
  std::string out = "\xFF";
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(token >> shift & 0xFF));
  return out;
}

Vocabulary::Vocabulary(std::vector<Token> tokens, std::span<const int32_t> end_tokens)
    : size_(static_cast<int>(tokens.size())),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      common_masks_(kCommonBytes) {
  std::erase_if(end_tokens_, [&](int32_t token) { return token < 0 || token >= size_; });
  std::ranges::sort(end_tokens_);
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  begins_.reserve(tokens.size() + 1);
  begins_.push_back(0);
  for (int32_t id = 0; id < size_; id++) {
    Token& token = tokens[static_cast<size_t>(id)];
    if (token.special && !token.bytes.empty()) specials_.emplace(token.bytes, id);
    // The byte that begins a code is in no text: a token that has it could only spell another's code.
    if (!token.special && token.bytes.find('\xFF') != std::string::npos) token.bytes.clear();
    if (!is_end(id)) arena_ += token.special && !token.bytes.empty() ? special_code(id) : token.bytes;
    begins_.push_back(static_cast<uint32_t>(arena_.size()));
  }
  std::vector<Sorted> sorted;
  sorted.reserve(tokens.size());
  for (int32_t id = 0; id < size_; id++) {
    const std::string_view bytes = token_bytes(id);
    if (!bytes.empty()) sorted.push_back({head_of(bytes), bytes, id});
    longest_ = std::max(longest_, bytes.size());
  }
  std::ranges::sort(sorted, std::less<>());
  size_t kept = 0;
  for (const Sorted& token : sorted) {
    if (kept > 0 && sorted[kept - 1].bytes == token.bytes) {
      same_.push_back({sorted[kept - 1].token, token.token});
    } else {
      sorted[kept++] = token;
    }
  }
  sorted.resize(kept);
  nodes_.reserve(arena_.size());
  append_trie(
      sorted, [](const Sorted&) { return true; }, nodes_);
  make_slices(sorted);
  nodes_.shrink_to_fit();
}

Vocabulary::~Vocabulary() = default;

// Lengths by what tokens of text have: half have 6 characters or fewer, nearly all 16.
void Vocabulary::make_slices(const std::vector<Sorted>& sorted) {
  std::vector<uint32_t> length(static_cast<size_t>(size_));
  for (const Sorted& token : sorted) length[static_cast<size_t>(token.token)] = plain_length(token.bytes);
  for (const uint32_t chars : {kUnbounded, uint32_t{16}, uint32_t{6}}) {
    const auto inside = [&](const Sorted& token) {
      const uint32_t own = length[static_cast<size_t>(token.token)];
      return own > 0 && own <= chars;
    };
    slices_.push_back(make_slice(sorted, chars, inside));
  }
  constexpr uint32_t kLetters = 16;
  letters_ = make_slice(sorted, kLetters, [](const Sorted& token) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    return token.bytes.size() <= kLetters && std::ranges::all_of(token.bytes, is_letter);
  });
}

template <class Inside>
Vocabulary::Slice Vocabulary::make_slice(const std::vector<Sorted>& sorted, uint32_t chars, Inside inside) {
  Slice slice = {chars, std::vector<uint32_t>(words()), 0};
  for (const Sorted& token : sorted) {
    if (inside(token)) set_bit(slice.bits, token.token);
  }
  slice.root = append_trie(
      sorted, [&](const Sorted& token) { return !inside(token); }, nodes_);
  return slice;
}

std::shared_ptr<const Vocabulary> Vocabulary::make(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                                                   int most) {
  std::vector<Token> tokens(static_cast<size_t>(std::clamp(tokenizer.vocab_size(), 0, std::max(most, 0))));
  for (int32_t id = 0; id < static_cast<int32_t>(tokens.size()); id++) {
    if (!tokenizer.contains(id)) continue;
    tokens[static_cast<size_t>(id)] = {tokenizer.token_bytes(id), tokenizer.is_special(id)};
  }
  return std::make_shared<Vocabulary>(std::move(tokens), end_tokens);
}

bool Vocabulary::is_end(int32_t token) const { return std::ranges::binary_search(end_tokens_, token); }

std::optional<int32_t> Vocabulary::special_token(std::string_view name) const {
  const auto it = specials_.find(std::string(name));
  return it == specials_.end() ? std::nullopt : std::optional(it->second);
}

std::string_view Vocabulary::token_bytes(int32_t token) const {
  if (token < 0 || token >= size_) return {};
  const auto i = static_cast<size_t>(token);
  return std::string_view(arena_).substr(begins_[i], begins_[i + 1] - begins_[i]);
}

std::span<const CharRange> Vocabulary::plain_chars() { return kPlain; }

size_t Vocabulary::memory() const {
  size_t bytes = arena_.capacity() + begins_.capacity() * 4 + nodes_.capacity() * sizeof(TrieNode);
  for (const Slice& slice : slices_) bytes += slice.bits.capacity() * 4;
  bytes += letters_.bits.capacity() * 4;
  return bytes + common_masks_.memory();
}

}  // namespace ingot::grammar
