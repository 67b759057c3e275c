// Characters as expressions over the bytes of UTF-8.
#include <algorithm>
#include <map>

#include "grammar/regex/regex.h"

namespace ingot::grammar {
namespace {

constexpr uint32_t kLastChar = 0x10FFFF;

// A range of characters whose UTF-8 has `length` bytes, each from a range of its own.
struct Sequence {
  std::array<uint8_t, 4> first{}, last{};
  size_t length = 0;
};

void encode(uint32_t cp, size_t length, std::array<uint8_t, 4>& out) {
  static constexpr std::array<uint8_t, 5> kLead = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = length; i-- > 1; cp >>= 6) out[i] = static_cast<uint8_t>(0x80 | (cp & 0x3F));
  out[0] = static_cast<uint8_t>(kLead[length] | cp);
}

// Cuts first … last where the length of UTF-8 changes, then until all bytes but one prefix are whole ranges.
void sequences_of(CharRange range, std::vector<Sequence>& out) {
  static constexpr std::array<uint32_t, 4> kEnds = {0x7F, 0x7FF, 0xFFFF, kLastChar};
  for (size_t length = 1; range.first <= range.last; length++) {
    if (length > 4) return;
    const uint32_t end = std::min(range.last, kEnds[length - 1]);
    while (range.first <= end) {
      uint32_t last = end;
      for (size_t i = 1; i < length; i++) {
        const uint32_t low = (uint32_t{1} << (6 * i)) - 1;
        if ((range.first & ~low) == (last & ~low)) continue;  // the bytes above agree
        if ((range.first & low) != 0) {
          last = range.first | low;
        } else if ((last & low) != low) {
          last = (last & ~low) - 1;
        }
      }
      Sequence sequence;
      sequence.length = length;
      encode(range.first, length, sequence.first);
      encode(last, length, sequence.last);
      out.push_back(sequence);
      range.first = last + 1;
    }
  }
}

// The expression of the bytes from `at` on; at most four deep. Sequences are sorted, and two that share a first byte
// have that byte alone in front: a range of first bytes has whole ranges behind it.
Expr tree(Regexes& pool, std::span<const Sequence> sequences, size_t at) {
  std::map<Expr, ByteSet> by_tail;
  for (size_t i = 0; i < sequences.size();) {
    size_t end = i + 1;
    while (end < sequences.size() && sequences[end].first[at] == sequences[i].first[at]) end++;
    const bool is_last = at + 1 == sequences[i].length;
    const Expr tail = is_last ? kEmpty : tree(pool, sequences.subspan(i, end - i), at + 1);
    for (size_t k = i; k < (is_last ? end : i + 1); k++) {
      by_tail[tail] = by_tail[tail] | ByteSet::range(sequences[k].first[at], sequences[k].last[at]);
    }
    i = end;
  }
  std::vector<Expr> parts;
  for (const auto& [tail, set] : by_tail) parts.push_back(pool.concat(pool.bytes(set), tail));
  return pool.any_of(parts);
}

}  // namespace

std::vector<CharRange> normalized(std::vector<CharRange> ranges) {
  std::vector<CharRange> cut;
  for (const CharRange& range : ranges) {  // without surrogates
    if (range.first < 0xD800) cut.push_back({range.first, std::min<uint32_t>(range.last, 0xD7FF)});
    if (range.last > 0xDFFF) cut.push_back({std::max<uint32_t>(range.first, 0xE000), std::min(range.last, kLastChar)});
  }
  std::erase_if(cut, [](const CharRange& range) { return range.first > range.last; });
  std::ranges::sort(cut, {}, &CharRange::first);
  std::vector<CharRange> out;
  for (const CharRange& range : cut) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::vector<CharRange> other_chars(std::vector<CharRange> ranges) {
  std::vector<CharRange> out;
  uint32_t next = 0;
  for (const CharRange& range : normalized(std::move(ranges))) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastChar) out.push_back({next, kLastChar});
  return normalized(std::move(out));
}

Expr Regexes::chars(std::span<const CharRange> given) {
  std::vector<Sequence> sequences;
  for (const CharRange& range : normalized({given.begin(), given.end()})) sequences_of(range, sequences);
  return tree(*this, sequences, 0);
}

Expr Regexes::any_char() {
  const CharRange all = {0, kLastChar};
  return chars(std::span(&all, 1));
}

}  // namespace ingot::grammar
