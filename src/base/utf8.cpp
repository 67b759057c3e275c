#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ingot {

namespace {

// What may follow a first byte: how many bytes the character has, and the range of the second one, which is where
// overlong forms, surrogates and numbers above U+10FFFF are excluded (Unicode, table 3-7). length 0: no first byte.
struct Lead {
  size_t length;
  unsigned low, high;
};

Lead lead_of(unsigned byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

unsigned byte_at(std::string_view s, size_t pos) { return static_cast<unsigned char>(s[pos]); }

// The bytes at s[pos] that agree with the character the first one announces; equal to lead.length when it is whole.
size_t matching(std::string_view s, size_t pos, const Lead& lead) {
  if (lead.length == 0) return 0;
  size_t n = 1;
  while (n < lead.length && pos + n < s.size()) {
    const unsigned byte = byte_at(s, pos + n);
    const unsigned low = n == 1 ? lead.low : 0x80;
    const unsigned high = n == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) break;
    n++;
  }
  return n;
}

}  // namespace

size_t utf8_decode(std::string_view s, size_t pos, uint32_t& cp) {
  if (pos >= s.size()) return 0;
  const unsigned first = byte_at(s, pos);
  if (first < 0x80) {
    cp = first;
    return 1;
  }
  const Lead lead = lead_of(first);
  if (lead.length == 0 || matching(s, pos, lead) != lead.length) return 0;
  uint32_t value = first & (0x7fu >> lead.length);
  for (size_t i = 1; i < lead.length; i++) value = value << 6 | (byte_at(s, pos + i) & 0x3fu);
  cp = value;
  return lead.length;
}

bool utf8_valid(std::string_view s) { return utf8_valid_length(s) == s.size(); }

size_t utf8_valid_length(std::string_view s) {
  uint32_t cp = 0;
  size_t pos = 0;
  while (pos < s.size()) {
    for (uint64_t word = 0; pos + 8 <= s.size(); pos += 8) {
      std::memcpy(&word, s.data() + pos, 8);
      if ((word & 0x8080808080808080u) != 0) break;
    }
    while (pos < s.size() && byte_at(s, pos) < 0x80) pos++;
    // Three bytes where no second byte needs a look of its own: most scripts of Asia, half the time of utf8_decode.
    while (pos + 3 <= s.size() && byte_at(s, pos) > 0xe0 && byte_at(s, pos) < 0xed &&
           ((byte_at(s, pos + 1) ^ 0x80) | (byte_at(s, pos + 2) ^ 0x80)) < 0x40) {
      pos += 3;
    }
    if (pos == s.size() || byte_at(s, pos) < 0x80) continue;
    const size_t n = utf8_decode(s, pos, cp);
    if (n == 0) break;
    pos += n;
  }
  return pos;
}

void utf8_append(std::string& out, uint32_t cp) {
  if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) cp = 0xfffd;
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (cp < 0x80) {
    put(cp);
  } else if (cp < 0x800) {
    put(0xc0 | cp >> 6);
    put(0x80 | (cp & 0x3f));
  } else if (cp < 0x10000) {
    put(0xe0 | cp >> 12);
    put(0x80 | (cp >> 6 & 0x3f));
    put(0x80 | (cp & 0x3f));
  } else {
    put(0xf0 | cp >> 18);
    put(0x80 | (cp >> 12 & 0x3f));
    put(0x80 | (cp >> 6 & 0x3f));
    put(0x80 | (cp & 0x3f));
  }
}

size_t utf8_invalid_length(std::string_view s, size_t pos) {
  return std::max<size_t>(1, matching(s, pos, lead_of(byte_at(s, pos))));
}

std::string utf8_replace_invalid(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  uint32_t cp = 0;
  for (size_t pos = 0; pos < s.size();) {
    const size_t n = utf8_decode(s, pos, cp);
    if (n > 0) {
      out.append(s.substr(pos, n));
      pos += n;
    } else {
      utf8_append(out, 0xfffd);
      pos += utf8_invalid_length(s, pos);
    }
  }
  return out;
}

std::string utf8_printable(std::string_view s, size_t max_bytes) {
  std::string out;
  uint32_t cp = 0;
  for (size_t pos = 0; pos < s.size();) {
    const size_t n = utf8_decode(s, pos, cp);
    if (pos + std::max<size_t>(n, 1) > max_bytes) return out + "…";
    if (n == 0 || cp < 0x20 || cp == 0x7f || (cp >= 0x80 && cp < 0xa0)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", n == 0 ? byte_at(s, pos) : cp);
    } else {
      out.append(s.substr(pos, n));
    }
    pos += std::max<size_t>(n, 1);
  }
  return out;
}

}  // namespace ingot
