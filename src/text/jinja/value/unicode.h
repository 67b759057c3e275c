// Character properties and case as Python's str has them. Bytes that are not UTF-8 count as one character each, with
// no property.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::jinja {

enum class Property {
  kSpace,
  kPrintable,
  kAlpha,
  kDecimal,
  kDigit,
  kNumeric,
  kLower,
  kUpper,
  kTitle,
  kIgnorable,
  kWord
};

// kWord: may stand in an identifier after its first character.
bool has_property(uint32_t cp, Property property);
inline bool is_space(uint32_t cp) {
  return cp < 128 ? cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31) : has_property(cp, Property::kSpace);
}
inline bool is_cased(uint32_t cp) {
  return has_property(cp, Property::kLower) || has_property(cp, Property::kUpper) || has_property(cp, Property::kTitle);
}

// Where str.splitlines ends a line; "\r\n" is one end.
inline bool is_line_end(uint32_t cp) {
  return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

// The character at s[pos] and its bytes, at least 1. REQUIRES: pos < s.size().
struct Char {
  uint32_t cp;
  size_t size;
};
Char char_at(std::string_view s, size_t pos);
// The start of the character that ends at `end`. REQUIRES: end > 0.
size_t char_before(std::string_view s, size_t end);

size_t count_chars(std::string_view s);
// The byte at which character `index` begins; s.size() when there are fewer.
size_t byte_of_char(std::string_view s, size_t index);

// The first and last byte borders of `s` without white space at its ends.
size_t skip_space(std::string_view s, size_t begin);
size_t skip_space_back(std::string_view s, size_t end);

enum class Case { kUpper, kLower, kTitle };
// Appends the character at s[pos] in another case; `s` is needed because a final sigma looks at its neighbours.
void append_case(std::string& out, std::string_view s, size_t pos, Case to);

}  // namespace ingot::jinja
