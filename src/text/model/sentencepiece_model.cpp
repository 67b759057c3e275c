#include "text/model/sentencepiece_model.h"

#include <algorithm>

#include "base/error.h"
#include "text/chars.h"

namespace ingot {

// What the next characters become.
std::string_view SentencePieceNormalizer::next(std::string_view text, size_t& pos) const {
  const size_t begin = pos;
  if (const size_t length = user_defined.longest(text, pos).length; length > 0) {
    pos += length;
    return text.substr(begin, length);
  }
  if (charsmap) {
    if (const Charsmap::Match match = charsmap->longest(text, pos); match.length > 0) {
      pos += match.length;
      return match.text;
    }
  }
  pos += char_length(text[pos]);
  return text.substr(begin, pos - begin);
}

void SentencePieceNormalizer::apply(std::string_view text, std::string& out) const {
  const std::string_view space = escape_spaces ? "\xE2\x96\x81" : " ";
  const size_t limit = 64 * text.size() + (size_t{16} << 20);
  out.clear();
  size_t pos = 0;
  while (squeeze_spaces && pos < text.size()) {
    size_t end = pos;
    if (next(text, end) != " ") break;
    pos = end;
  }
  if (pos == text.size()) return;
  out.reserve(text.size() + text.size() / 4);
  if (dummy_prefix && !suffix) out.append(space);
  bool after_space = squeeze_spaces;
  while (pos < text.size()) {
    std::string_view part = next(text, pos);
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    for (const char c : part) {
      if (c == ' ') {
        out.append(space);
      } else {
        out.push_back(c);
      }
    }
    if (out.size() > limit) throw Error("[tokenizer] normalization makes more than {} bytes of a text", limit);
    after_space = squeeze_spaces && part.back() == ' ';
  }
  while (squeeze_spaces && out.ends_with(space)) out.erase(out.size() - space.size());
  if (dummy_prefix && suffix) out.append(space);
}

void SentencePieceModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const {
  std::string text;
  normalizer_.apply(piece, text);
  const std::string_view view = text;
  size_t done = 0;
  const auto flush = [&](size_t end) {
    if (end > done) inner_->encode(view.substr(done, end - done), scratch, out);
  };
  for (size_t pos = 0; cut_ && pos < view.size() && !normalizer_.user_defined.empty();) {
    const ByteTrie::Match match = normalizer_.user_defined.longest(view, pos);
    if (match.length == 0) {
      pos += char_length(view[pos]);
      continue;
    }
    flush(pos);
    out.push_back(match.value);
    pos += match.length;
    done = pos;
  }
  flush(view.size());
}

}  // namespace ingot
