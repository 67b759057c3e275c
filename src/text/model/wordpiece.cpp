#include "text/model/wordpiece.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

bool longer_than(std::string_view word, size_t characters) {
  if (word.size() <= characters) return false;
  for (size_t pos = 0; pos < word.size(); pos += char_length(word[pos])) {
    if (characters-- == 0) return true;
  }
  return false;
}

}  // namespace

WordPiece::WordPiece(const Vocab& vocab, WordPieceOptions options)
    : vocab_(&vocab), options_(std::move(options)), trie_(vocab) {
  continued_ = trie_.walk(TokenTrie::kRoot, options_.prefix);
}

// False where some place has no token; what is in `out` then counts for nothing.
bool WordPiece::write(std::string_view word, bool control, std::vector<Token>& out) const {
  for (size_t begin = 0; begin < word.size();) {
    TokenTrie::Node node = begin == 0 ? TokenTrie::kRoot : continued_;
    Token longest = kNoToken;
    size_t end = begin;
    for (size_t at = begin; at < word.size() && node != TokenTrie::kNone;) {
      node = trie_.step(node, word[at++]);
      const Token token = node == TokenTrie::kNone ? kNoToken : trie_.token(node);
      if (token == kNoToken || (vocab_->kind(token) == TokenKind::kControl && !control)) continue;
      longest = token;
      end = at;
    }
    if (longest == kNoToken) return false;
    out.push_back(longest);
    begin = end;
  }
  return true;
}

void WordPiece::encode(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const {
  if (scratch.cache && scratch.cache->find(word, scratch.control, out)) return;
  const size_t before = out.size();
  if (longer_than(word, options_.max_characters) || !write(word, scratch.control, out)) {
    out.resize(before);
    if (options_.unknown == kNoToken) {
      throw Error("[tokenizer] no tokens write '{}', and the vocabulary has none for unknown words",
                  utf8_printable(word));
    }
    out.push_back(options_.unknown);
  }
  if (scratch.cache) scratch.cache->put(word, scratch.control, std::span(out).subspan(before));
}

}  // namespace ingot
