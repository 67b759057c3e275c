#include "text/jinja/value/unicode.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/utf8.h"
#include "text/jinja/value/unicode_tables.h"

namespace ingot::jinja {
namespace {

std::vector<uint32_t> sums(std::span<const uint32_t> differences) {
  std::vector<uint32_t> out;
  uint32_t at = 0;
  for (uint32_t d : differences) out.push_back(at += d);
  return out;
}

const std::vector<uint32_t>& borders(Property property) {
  static const std::vector<uint32_t> tables[] = {
      sums(kSpaceBorders), sums(kPrintableBorders), sums(kAlphaBorders),      sums(kDecimalBorders),
      sums(kDigitBorders), sums(kNumericBorders),   sums(kLowerBorders),      sums(kUpperBorders),
      sums(kTitleBorders), sums(kIgnorableBorders), sums(kIdentifierBorders),
  };
  return tables[static_cast<size_t>(property)];
}

bool search_property(uint32_t cp, Property property) {
  const std::vector<uint32_t>& table = borders(property);
  return (std::upper_bound(table.begin(), table.end(), cp) - table.begin()) % 2 == 1;
}

const CaseSpecial* find_special(std::span<const CaseSpecial> table, uint32_t cp) {
  auto it = std::lower_bound(table.begin(), table.end(), cp,
                             [](const CaseSpecial& entry, uint32_t value) { return entry.from < value; });
  return it != table.end() && it->from == cp ? &*it : nullptr;
}

uint32_t map_range(std::span<const CaseRange> table, uint32_t cp) {
  auto it = std::upper_bound(table.begin(), table.end(), cp,
                             [](uint32_t value, const CaseRange& entry) { return value < entry.first; });
  if (it == table.begin()) return cp;
  --it;
  if (cp > it->last || (cp - it->first) % it->step != 0) return cp;
  return static_cast<uint32_t>(static_cast<int64_t>(cp) + it->delta);
}

// A capital sigma becomes a final one after a letter and not before one.
bool final_sigma(std::string_view s, size_t pos) {
  size_t i = pos;
  bool after_letter = false;
  while (i > 0) {
    i = char_before(s, i);
    uint32_t cp = char_at(s, i).cp;
    if (has_property(cp, Property::kIgnorable)) continue;
    after_letter = is_cased(cp);
    break;
  }
  if (!after_letter) return false;
  for (i = pos + char_at(s, pos).size; i < s.size(); i += char_at(s, i).size) {
    uint32_t cp = char_at(s, i).cp;
    if (!has_property(cp, Property::kIgnorable)) return !is_cased(cp);
  }
  return true;
}

bool append_special(std::string& out, const CaseSpecial* special) {
  if (special == nullptr) return false;
  for (uint32_t cp : special->to) {
    if (cp != 0) utf8_append(out, cp);
  }
  return true;
}

}  // namespace

bool has_property(uint32_t cp, Property property) {
  if (cp < 128) {  // nearly all of them: one bit for each property
    static const std::array<uint16_t, 128> ascii = [] {
      std::array<uint16_t, 128> bits{};
      for (uint32_t c = 0; c < 128; ++c) {
        for (int p = 0; p <= static_cast<int>(Property::kWord); ++p) {
          if (search_property(c, static_cast<Property>(p))) bits[c] = static_cast<uint16_t>(bits[c] | (1u << p));
        }
      }
      return bits;
    }();
    return (ascii[cp] >> static_cast<int>(property) & 1) != 0;
  }
  return search_property(cp, property);
}

Char char_at(std::string_view s, size_t pos) {
  unsigned char byte = static_cast<unsigned char>(s[pos]);
  if (byte < 0x80) return {byte, 1};
  uint32_t cp = 0;
  size_t size = utf8_decode(s, pos, cp);
  if (size == 0) return {0xDC00u + byte, 1};
  return {cp, size};
}

size_t char_before(std::string_view s, size_t end) {
  // A valid character has at most 4 bytes; when none ends here the last byte stands alone.
  for (size_t n = 2; n <= 4 && n <= end; ++n) {
    if ((static_cast<unsigned char>(s[end - 1]) & 0xC0) != 0x80) break;
    uint32_t cp = 0;
    if (utf8_decode(s, end - n, cp) == n) return end - n;
  }
  return end - 1;
}

size_t count_chars(std::string_view s) {
  size_t n = 0;
  for (size_t i = 0; i < s.size(); ++n) {
    i += static_cast<unsigned char>(s[i]) < 0x80 ? 1 : char_at(s, i).size;
  }
  return n;
}

size_t byte_of_char(std::string_view s, size_t index) {
  size_t i = 0;
  for (; index > 0 && i < s.size(); --index) i += char_at(s, i).size;
  return i;
}

size_t skip_space(std::string_view s, size_t begin) {
  while (begin < s.size()) {
    Char c = char_at(s, begin);
    if (!is_space(c.cp)) break;
    begin += c.size;
  }
  return begin;
}

size_t skip_space_back(std::string_view s, size_t end) {
  while (end > 0) {
    size_t start = char_before(s, end);
    if (!is_space(char_at(s, start).cp)) break;
    end = start;
  }
  return end;
}

void append_case(std::string& out, std::string_view s, size_t pos, Case to) {
  Char c = char_at(s, pos);
  if (c.cp < 128) {
    char ch = static_cast<char>(c.cp);
    if (to == Case::kLower && ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch + 32);
    if (to != Case::kLower && ch >= 'a' && ch <= 'z') ch = static_cast<char>(ch - 32);
    out += ch;
    return;
  }
  if (c.cp >= 0xDC00 && c.cp < 0xE000) {  // not UTF-8
    out.append(s.substr(pos, c.size));
    return;
  }
  if (to == Case::kTitle && append_special(out, find_special(kTitleSpecials, c.cp))) return;
  if (to == Case::kLower) {
    if (c.cp == 0x3A3) {
      utf8_append(out, final_sigma(s, pos) ? 0x3C2 : 0x3C3);
    } else if (!append_special(out, find_special(kLowerSpecials, c.cp))) {
      utf8_append(out, map_range(kLowerRanges, c.cp));
    }
    return;
  }
  if (!append_special(out, find_special(kUpperSpecials, c.cp))) utf8_append(out, map_range(kUpperRanges, c.cp));
}

}  // namespace ingot::jinja
