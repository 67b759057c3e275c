// The steps that scanners are made of. Inside text/ only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "text/chars.h"
#include "text/unicode/unicode.h"

namespace ingot::scan {

inline CategorySet category_at(std::string_view text, size_t pos) { return category_of(char_at(text, pos)); }

inline size_t skip(std::string_view text, size_t pos, CategorySet set) {
  while (pos < text.size() && (category_at(text, pos) & set)) pos += char_length(text[pos]);
  return pos;
}

inline size_t skip_not(std::string_view text, size_t pos, CategorySet set) {
  while (pos < text.size() && !(category_at(text, pos) & set)) pos += char_length(text[pos]);
  return pos;
}

// `bytes`: ASCII characters.
inline size_t skip_bytes(std::string_view text, size_t pos, std::string_view bytes) {
  while (pos < text.size() && bytes.find(text[pos]) != std::string_view::npos) pos++;
  return pos;
}

inline size_t skip_han(std::string_view text, size_t pos) {
  while (pos < text.size() && is_han(char_at(text, pos))) pos += char_length(text[pos]);
  return pos;
}

// Between the first and the last of one of the ranges, which are sorted.
struct CharRange {
  uint32_t first;
  uint32_t last;
};
template <size_t kCount>
bool in_ranges(uint32_t cp, const CharRange (&ranges)[kCount]) {
  const CharRange* it =
      std::upper_bound(ranges, ranges + kCount, cp, [](uint32_t x, const CharRange& range) { return x < range.first; });
  return it != ranges && cp <= it[-1].last;
}
template <size_t kCount>
size_t skip_ranges(std::string_view text, size_t pos, const CharRange (&ranges)[kCount]) {
  while (pos < text.size() && in_ranges(char_at(text, pos), ranges)) pos += char_length(text[pos]);
  return pos;
}

inline bool is_newline(char c) { return c == '\r' || c == '\n'; }
inline bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// 's|'t|'re|'ve|'m|'ll|'d. With kAnyCase as (?i:…), where s also matches ſ (U+017F), which folds to it.
template <bool kAnyCase>
size_t contraction(std::string_view text, size_t pos) {
  if (text[pos] != '\'' || pos + 1 >= text.size()) return pos;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    return kAnyCase ? ascii_lower(text[i]) : text[i];
  };
  const char a = letter(pos + 1);
  const char b = letter(pos + 2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
  if (kAnyCase && text.substr(pos + 1, 2) == "\xC5\xBF") return pos + 3;
  return pos;
}

// \s+(?!\S)|\s+ ; with kNewlines \s*[\r\n]+|\s+(?!\S)|\s+
template <bool kNewlines>
size_t scan_space(std::string_view text, size_t pos) {
  const size_t end = skip(text, pos, kSpace);
  if (kNewlines) {
    for (size_t i = end; i > pos; i--) {
      if (is_newline(text[i - 1])) return i;
    }
  }
  if (end == text.size() || end == pos) return end;
  const size_t last = char_before(text, end);
  return last > pos ? last : end;
}

inline size_t scan_up_to(std::string_view text, size_t pos, CategorySet set, int max) {
  for (int i = 0; i < max && pos < text.size() && (category_at(text, pos) & set); i++) pos += char_length(text[pos]);
  return pos;
}

//  ?[^\s…]+[tail]* with `not_in` the excluded categories; pos where it does not match.
inline size_t scan_other(std::string_view text, size_t pos, CategorySet not_in, std::string_view tail) {
  const size_t begin = pos + (text[pos] == ' ' ? 1 : 0);
  const size_t end = skip_not(text, begin, not_in);
  return end == begin ? pos : skip_bytes(text, end, tail);
}

}  // namespace ingot::scan
