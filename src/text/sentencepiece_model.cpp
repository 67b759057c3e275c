#include "text/sentencepiece_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

constexpr size_t kMaxBlob = size_t{16} << 20;  // the published maps have 250 KB
constexpr size_t kMaxKey = 256;                // of an entry: an array with a ring in it would match all of a text

uint32_t load_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; i++) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// A unit: bits 0 to 7 the byte by which it is reached, 8 whether an entry ends here, 9 and 10 to 30 where its children
// are. The unit of an entry's value has bit 31.
constexpr uint32_t kValueBit = uint32_t{1} << 31;
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool ends_entry(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label_of(uint32_t unit) { return unit & (kValueBit | 0xFF); }

}  // namespace

PrefixMap::PrefixMap(std::string_view blob) {
  if (blob.size() > kMaxBlob) throw Error("[tokenizer] a charsmap of {} bytes, {} allowed", blob.size(), kMaxBlob);
  const size_t length = blob.size() < 4 ? 0 : load_u32(blob);
  if (length == 0 || length % 4 != 0 || length > blob.size() - 4) {
    throw Error("[tokenizer] a charsmap of {} bytes whose array has {}", blob.size(), length);
  }
  units_.reserve(length / 4);
  for (size_t i = 0; i < length; i += 4) units_.push_back(load_u32(blob.substr(4 + i, 4)));
  strings_ = blob.substr(4 + length);
  if (strings_.empty() || strings_.back() != '\0') throw Error("[tokenizer] a charsmap whose strings do not end");
  if (!utf8_valid(strings_)) throw Error("[tokenizer] a charsmap whose strings are not UTF-8");
  for (size_t i = 0; i < units_.size(); i++) {
    if ((units_[i] & kValueBit) || !ends_entry(units_[i])) continue;
    const size_t at = i ^ offset_of(units_[i]);
    const size_t value = at < units_.size() ? units_[at] & ~kValueBit : SIZE_MAX;
    if (value >= strings_.size() || (static_cast<unsigned char>(strings_[value]) & 0xC0) == 0x80) {
      throw Error("[tokenizer] a charsmap whose unit {} points outside", i);
    }
  }
}

PrefixMap::Match PrefixMap::longest(std::string_view text, size_t pos) const {
  Match match;
  size_t node = offset_of(units_[0]);
  for (size_t i = pos; i < std::min(text.size(), pos + kMaxKey); i++) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool ends = ends_entry(units_[node]);
    node ^= offset_of(units_[node]);
    if (!ends) continue;
    match = {i - pos + 1, std::string_view(strings_.c_str() + (units_[node] & ~kValueBit))};
  }
  // Text is cut at characters: an entry that ends inside one is none.
  const size_t end = pos + match.length;
  const bool whole = end >= text.size() || (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
  return whole ? match : Match{};
}

// What the next characters become.
std::string_view SentencePieceNormalizer::next(std::string_view text, size_t& pos) const {
  const size_t begin = pos;
  if (const size_t length = user_defined.longest(text, pos).length; length > 0) {
    pos += length;
    return text.substr(begin, length);
  }
  if (charsmap) {
    if (const PrefixMap::Match match = charsmap->longest(text, pos); match.length > 0) {
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
  while (squeeze_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
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
