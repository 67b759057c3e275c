// Characters of UTF-8 that is known to be valid. Everything behind Tokenizer::encode's check reads text this way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ingot {

// Bytes of the character that begins with `first`.
inline size_t char_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

// The character at text[pos]. REQUIRES: a valid character begins there.
inline uint32_t char_at(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[pos + i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return first;
  if (first < 0xE0) return (first & 0x1F) << 6 | (byte(1) & 0x3F);
  if (first < 0xF0) return (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Where the character that ends before text[pos] begins. REQUIRES: pos > 0.
inline size_t char_before(std::string_view text, size_t pos) {
  do pos--;
  while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80);
  return pos;
}

}  // namespace ingot
