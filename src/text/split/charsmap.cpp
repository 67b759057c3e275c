#include "text/split/charsmap.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/unicode/unicode_library.h"

namespace ingot {

namespace {

constexpr size_t kMaxBlob = size_t{16} << 20;  // the published tables have 250 KB
constexpr size_t kMaxKey = 256;                // of a key; a trie with a ring in it would match all of a text
constexpr size_t kMaxReplacement = 1024;       // the longest published has 33 bytes; bounds what a text can grow to

// A unit of the double array: bits 0 to 7 its label, 8 whether a value follows, 9 the scale of the offset, 10 to 30 the
// offset; with bit 31 it is a value of 31 bits.
constexpr uint32_t kValueBit = uint32_t{1} << 31;
uint32_t label_of(uint32_t unit) { return unit & (kValueBit | 0xFF); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
size_t offset_of(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit >> 9 & 1) * 8); }

uint32_t little_endian(std::string_view bytes, size_t pos) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[pos + i]);
  return value;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.size() < 4 || blob.size() > kMaxBlob) {
    throw Error("[tokenizer] a charsmap of {} bytes, 4 to {} allowed", blob.size(), kMaxBlob);
  }
  const size_t length = little_endian(blob, 0);
  if (length > blob.size() - 4 || length % 4 != 0 || length == 0) {
    throw Error("[tokenizer] the charsmap has {} bytes and says that its trie has {}", blob.size(), length);
  }
  units_.resize(length / 4);
  for (size_t i = 0; i < units_.size(); i++) units_[i] = little_endian(blob, 4 + 4 * i);
  texts_.assign(blob.substr(4 + length));
  if (!texts_.ends_with('\0')) throw Error("[tokenizer] the last replacement of the charsmap does not end");
  if (!utf8_valid(texts_)) throw Error("[tokenizer] the replacements of the charsmap are not UTF-8");
  check();
}

void Charsmap::check() const {
  for (size_t i = 0; i < units_.size(); i++) {
    const uint32_t unit = units_[i];
    if ((unit & kValueBit) || !has_value(unit)) continue;
    const size_t at = i ^ offset_of(unit);
    const size_t value = at < units_.size() ? units_[at] & ~kValueBit : SIZE_MAX;
    if (value >= texts_.size()) throw Error("[tokenizer] the charsmap's unit {} points outside", i);
    const bool starts = (static_cast<unsigned char>(texts_[value]) & 0xC0) != 0x80;
    const size_t end = std::min(texts_.find('\0', value), texts_.size());
    if (!starts || end - value > kMaxReplacement) {
      throw Error("[tokenizer] the charsmap's unit {} points to no replacement", i);
    }
  }
}

std::string_view Charsmap::replacement(uint32_t value) const {
  const std::string_view texts = texts_;
  return texts.substr(value, std::min(texts.find('\0', value), texts.size()) - value);
}

Charsmap::Match Charsmap::find(std::string_view key, bool longest) const {
  Match match;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < std::min(key.size(), kMaxKey); i++) {
    const auto byte = static_cast<unsigned char>(key[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    const bool inside = i + 1 < key.size() && (static_cast<unsigned char>(key[i + 1]) & 0xC0) == 0x80;
    if (longest && inside) continue;  // ends in the middle of a character
    match = {i + 1, replacement(units_[node] & ~kValueBit)};
    if (!longest) break;
  }
  return match;
}

bool Charsmap::apply_clusters(std::string_view text, std::string& out) const {
  std::string result;
  bool changed = false;
  const auto replace = [&](std::string_view key) {
    const Match match = find(key, false);
    if (match.length == 0) return false;
    result.append(match.text);
    changed = true;
    return true;
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = grapheme_end(text, pos);
    const std::string_view cluster = text.substr(pos, end - pos);
    if (cluster.size() >= 6 || !replace(cluster)) {
      for (size_t i = 0; i < cluster.size(); i += char_length(cluster[i])) {
        const std::string_view character = cluster.substr(i, char_length(cluster[i]));
        if (!replace(character)) result.append(character);
      }
    }
    pos = end;
  }
  if (changed) out = std::move(result);
  return changed;
}

}  // namespace ingot
