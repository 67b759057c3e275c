#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/unicode/unicode.h"

namespace ingot {

namespace {

constexpr size_t kMaxLength = 4096;

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_character(char_at(text, char_before(text, begin)))) return true;
  return end < text.size() && is_word_character(char_at(text, end));
}

}  // namespace

bool overlaps(std::span<const TextRange> ranges, size_t begin, size_t end) {
  const auto it = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                   [](size_t pos, const TextRange& range) { return pos < range.end; });
  return it != ranges.end() && it->begin < end;
}

bool ByteTrie::insert(std::string_view key, int32_t value) {
  int32_t& here = at(key);
  if (here >= 0) return false;
  here = value;
  return true;
}

int32_t& ByteTrie::at(std::string_view key) {
  int32_t& root = roots_[static_cast<unsigned char>(key[0])];
  if (root == 0) {
    nodes_.push_back({-1, -1, -1, key[0]});
    root = static_cast<int32_t>(nodes_.size());
    root_count_++;
    only_root_ = key[0];
  }
  auto node = static_cast<size_t>(root - 1);
  for (const char byte : key.substr(1)) {
    const int32_t first = nodes_[node].child;
    int32_t child = first;
    while (child >= 0 && nodes_[static_cast<size_t>(child)].byte != byte) {
      child = nodes_[static_cast<size_t>(child)].sibling;
    }
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_[node].child = child;
      nodes_.push_back({-1, first, -1, byte});
    }
    node = static_cast<size_t>(child);
  }
  return nodes_[node].value;
}

size_t ByteTrie::next_begin(std::string_view text, size_t pos) const {
  if (root_count_ == 1) return std::min(text.find(only_root_, pos), text.size());
  while (pos < text.size() && !begins_with(text[pos])) pos++;
  return pos;
}

ByteTrie::Match ByteTrie::longest(std::string_view text, size_t pos) const {
  Match best;
  int32_t node = roots_[static_cast<unsigned char>(text[pos])] - 1;
  for (size_t i = pos; node >= 0;) {
    const Node& here = nodes_[static_cast<size_t>(node)];
    i++;
    if (here.value >= 0) best = {here.value, i - pos};
    if (i >= text.size()) break;
    node = here.child;
    while (node >= 0 && nodes_[static_cast<size_t>(node)].byte != text[i]) {
      node = nodes_[static_cast<size_t>(node)].sibling;
    }
  }
  return best;
}

bool AddedToken::is_control() const {
  const std::string_view s = content;
  return special || (s.starts_with("<|") && s.ends_with("|>")) || (s.starts_with("<｜") && s.ends_with("｜>"));
}

void AddedTokens::add(AddedToken token, const Normalizer& normalizer) {
  if (token.content.empty()) throw Error("[tokenizer] added token {} is empty", token.id);
  if (token.content.size() > kMaxLength) {
    throw Error("[tokenizer] added token {} has {} bytes, at most {} allowed", token.id, token.content.size(),
                kMaxLength);
  }
  if (!utf8_valid(token.content)) {
    throw Error("[tokenizer] added token {} ('{}') is not UTF-8", token.id, utf8_printable(token.content));
  }
  const auto index = static_cast<int32_t>(tokens_.size());
  if (!contents_.insert(token.content, index)) return;
  std::string buffer;
  const std::string_view key = token.normalized ? normalizer.apply(token.content, buffer) : token.content;
  if (!key.empty()) {
    int32_t& found = (token.normalized ? normalized_ : raw_).at(key);
    if (found < 0 || (token.special && !tokens_[static_cast<size_t>(found)].special)) found = index;
  }
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  if (content.empty()) return nullptr;
  const ByteTrie::Match match = contents_.longest(content, 0);
  return match.length == content.size() ? &tokens_[static_cast<size_t>(match.value)] : nullptr;
}

void AddedTokens::split(std::string_view text, bool normalized, const Options& options,
                        std::vector<Segment>& out) const {
  out.clear();
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size() && !trie.empty();) {
    pos = trie.next_begin(text, pos);
    if (pos >= text.size()) break;
    const ByteTrie::Match match = trie.longest(text, pos);
    if (match.value < 0) {
      pos++;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t begin = pos;
    size_t end = pos + match.length;
    pos = end;
    if (token.special && !options.special) continue;
    if (token.is_control() && overlaps(options.plain, begin + options.offset, end + options.offset)) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    // A token inside the White_Space that the one before took along counts all the same, and what follows it is text
    // again; but one that takes the White_Space before it along is lost there. So does the library that defined the
    // flags.
    if (token.lstrip) begin = std::max(begin, done);
    while (token.lstrip && begin > done) {
      const size_t before = char_before(text, begin);
      if (!(category_of(char_at(text, before)) & kSpace)) break;
      begin = before;
    }
    while (token.rstrip && end < text.size() && (category_of(char_at(text, end)) & kSpace)) {
      end += char_length(text[end]);
    }
    if (begin >= end) continue;
    if (done < begin) out.push_back({done, begin, kNoToken});
    out.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), kNoToken});
}

}  // namespace ingot
