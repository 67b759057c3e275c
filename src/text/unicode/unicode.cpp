#include "text/unicode/unicode.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/chars.h"

namespace ingot {

namespace {

constexpr uint8_t kNfcMayChange = 0x20;

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
constexpr uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Mark {
  uint32_t cp;
  uint32_t combining_class;
};

uint32_t combining_class(uint32_t cp) {
  if (!(unicode_class(cp) & kNfcMayChange)) return 0;
  const auto* begin = unicode::kCombiningClasses;
  const auto* end = begin + unicode::kCombiningClassCount;
  const auto* it = std::upper_bound(begin, end, cp, [](uint32_t x, const uint32_t(&row)[3]) { return x < row[0]; });
  if (it == begin) return 0;
  --it;
  return cp <= (*it)[1] ? (*it)[2] : 0;
}

const uint32_t* decomposition(uint32_t cp) {
  const auto* begin = unicode::kDecompositions;
  const auto* end = begin + unicode::kDecompositionCount;
  const auto* it = std::lower_bound(begin, end, cp, [](const uint32_t(&row)[3], uint32_t x) { return row[0] < x; });
  return it != end && (*it)[0] == cp ? *it : nullptr;
}

// The character that `first` and `second` compose to, or 0.
uint32_t composition(uint32_t first, uint32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  }
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTails == 0 && second > kTail &&
      second < kTail + kTails) {
    return first + (second - kTail);
  }
  const auto* begin = unicode::kCompositions;
  const auto* end = begin + unicode::kCompositionCount;
  const std::pair<uint32_t, uint32_t> wanted{first, second};
  const auto pair_of = [](uint16_t i) {
    return std::pair<uint32_t, uint32_t>{unicode::kDecompositions[i][1], unicode::kDecompositions[i][2]};
  };
  const auto* it = std::lower_bound(begin, end, wanted, [&](uint16_t i, const auto& x) { return pair_of(i) < x; });
  return it != end && pair_of(*it) == wanted ? unicode::kDecompositions[*it][0] : 0;
}

void decompose(uint32_t cp, std::vector<Mark>& out) {
  if (cp - kSyllable < kSyllables) {
    const uint32_t index = cp - kSyllable;
    out.push_back({kLead + index / (kVowels * kTails), 0});
    out.push_back({kVowel + index % (kVowels * kTails) / kTails, 0});
    if (index % kTails != 0) out.push_back({kTail + index % kTails, 0});
    return;
  }
  // The first part may decompose again, the second never does: a loop that keeps the seconds, at most four of them.
  uint32_t seconds[8];
  size_t n = 0;
  for (const uint32_t* row = decomposition(cp); row != nullptr && n < 8; row = decomposition(cp)) {
    if (row[2] != 0) seconds[n++] = row[2];
    cp = row[1];
  }
  out.push_back({cp, combining_class(cp)});
  while (n > 0) {
    n--;
    out.push_back({seconds[n], combining_class(seconds[n])});
  }
}

void decompose_compatible(uint32_t cp, std::vector<Mark>& out) {
  const auto* begin = unicode::kCompatibility;
  const auto* end = begin + unicode::kCompatibilityCount;
  const auto* it = std::lower_bound(begin, end, cp, [](const uint32_t(&row)[2], uint32_t x) { return row[0] < x; });
  if (it == end || (*it)[0] != cp) return decompose(cp, out);
  for (uint32_t i = it[0][1]; i < it[1][1]; i++) {
    out.push_back({unicode::kCompatibilityCharacters[i], combining_class(unicode::kCompatibilityCharacters[i])});
  }
}

// Decomposes `text` into `marks` in canonical order; with kCompatible into forms KC and KD.
template <bool kCompatible = false>
void canonical(std::string_view text, std::vector<Mark>& marks) {
  marks.clear();
  for (size_t pos = 0; pos < text.size(); pos += char_length(text[pos])) {
    const uint32_t cp = char_at(text, pos);
    kCompatible ? decompose_compatible(cp, marks) : decompose(cp, marks);
  }
  for (size_t i = 0; i < marks.size();) {
    if (marks[i].combining_class == 0) {
      i++;
      continue;
    }
    size_t end = i;
    while (end < marks.size() && marks[end].combining_class != 0) end++;
    std::stable_sort(marks.begin() + static_cast<ptrdiff_t>(i), marks.begin() + static_cast<ptrdiff_t>(end),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    i = end;
  }
}

std::string to_text(std::span<const Mark> marks) {
  std::string out;
  out.reserve(marks.size());
  for (const Mark& mark : marks) utf8_append(out, mark.cp);
  return out;
}

// Composes in place; returns how many are left.
size_t compose(std::span<Mark> marks) {
  size_t n = 0;
  size_t starter = marks.size();  // the last starter's place among the first n; marks.size(): none yet
  uint32_t last_class = 0;        // of what stands at n - 1 behind the starter; 0: nothing does
  for (const Mark mark : marks) {
    // Blocked: something between the starter and this mark has no lower class than this mark.
    const bool adjacent = starter != marks.size() && starter + 1 == n;
    if (starter != marks.size() && (adjacent || last_class < mark.combining_class)) {
      const uint32_t whole = composition(marks[starter].cp, mark.cp);
      if (whole != 0) {
        marks[starter].cp = whole;
        continue;
      }
    }
    if (mark.combining_class == 0) starter = n;
    last_class = mark.combining_class;
    marks[n++] = mark;
  }
  return n;
}

// Past characters that no normalization to form C touches: below U+0300, and ideographs of U+4000 to U+9FFF.
size_t skip_settled(std::string_view text, size_t pos) {
  const auto byte = [&] { return static_cast<unsigned char>(text[pos]); };
  for (;;) {
    for (uint64_t word = 0; pos + 8 <= text.size(); pos += 8) {
      std::memcpy(&word, text.data() + pos, 8);
      if ((word & 0x8080808080808080u) != 0) break;
    }
    const size_t begin = pos;
    while (pos < text.size() && byte() < 0xCC) pos++;
    // A two-byte character's second byte is below 0xCC too: the loop ends on a first byte, or on the text's end.
    while (pos < text.size() && byte() >= 0xE4 && byte() <= 0xE9) pos += 3;
    if (pos == begin) return pos;
  }
}

}  // namespace

bool is_word_character(uint32_t cp) {
  constexpr CategorySet kWord =
      kLetter | kMark | category_bit(Category::kNd) | category_bit(Category::kNl) | category_bit(Category::kPc);
  if (category_of(cp) & kWord) return true;
  // Join_Control, and the circled and squared letters, which are alphabetic symbols.
  return cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

bool to_nfc(std::string_view text, std::string& out) {
  const auto suspect = [&](size_t pos) {
    return static_cast<unsigned char>(text[pos]) >= 0xCC && (unicode_class(char_at(text, pos)) & kNfcMayChange) != 0;
  };
  bool changed = false;
  std::vector<Mark> marks;
  size_t done = 0;          // text[0, done) is in `result`
  size_t last_starter = 0;  // the last character that nothing before it can change
  std::string result;
  for (size_t pos = 0; pos < text.size();) {
    const size_t next = skip_settled(text, pos);
    if (next > pos) {
      pos = next;
      last_starter = char_before(text, pos);
      continue;
    }
    if (!suspect(pos)) {
      last_starter = pos;
      pos += char_length(text[pos]);
      continue;
    }
    // What may change reaches from the character before the suspects to the last of them.
    const size_t begin = std::max(last_starter, done);
    size_t end = pos;
    while (end < text.size() && suspect(end)) end += char_length(text[end]);
    canonical(text.substr(begin, end - begin), marks);
    result.append(text.substr(done, begin - done));
    const size_t n = compose(marks);
    const size_t before = result.size();
    for (size_t i = 0; i < n; i++) utf8_append(result, marks[i].cp);
    changed = changed || std::string_view(result).substr(before) != text.substr(begin, end - begin);
    pos = done = end;
  }
  if (!changed) return false;
  result.append(text.substr(done));
  out = std::move(result);
  return true;
}

std::string to_nfd(std::string_view text) {
  std::vector<Mark> marks;
  canonical(text, marks);
  return to_text(marks);
}

std::string to_nfkd(std::string_view text) {
  std::vector<Mark> marks;
  canonical<true>(text, marks);
  return to_text(marks);
}

bool to_nfkc(std::string_view text, std::string& out) {
  const auto plain = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), plain)) return false;
  std::vector<Mark> marks;
  canonical<true>(text, marks);
  out = to_text(std::span(marks).first(compose(marks)));
  return true;
}

}  // namespace ingot
