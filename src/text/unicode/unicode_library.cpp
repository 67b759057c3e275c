#include "text/unicode/unicode_library.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "text/chars.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_tables.h"

namespace ingot {

namespace {

// The row whose range holds cp, of rows {first, last, …} sorted by first; nullptr: none.
template <size_t kColumns>
const uint32_t* row_of(uint32_t cp, const uint32_t (*rows)[kColumns], size_t count) {
  const auto* it =
      std::upper_bound(rows, rows + count, cp, [](uint32_t x, const uint32_t(&row)[kColumns]) { return x < row[0]; });
  return it != rows && cp <= it[-1][1] ? it[-1] : nullptr;
}

// In the order of the generator's list.
enum GraphemeBreak : uint32_t {
  kOther,
  kCr,
  kLf,
  kControl,
  kExtend,
  kPlainExtend,  // Extend that conjuncts do not reach over
  kLinker,       // Extend that joins consonants
  kJoiner,       // U+200D
  kRegional,
  kPrepend,
  kSpacingMark,
  kL,
  kV,
  kT,
  kConsonant,
  kPictographic,
  kLv,  // computed from here on
  kLvt,
};

uint32_t break_of(uint32_t cp) {
  if (cp >= 0x20 && cp < 0x7F) return kOther;
  if (cp - 0xAC00 < 11172) return (cp - 0xAC00) % 28 == 0 ? kLv : kLvt;
  const uint32_t* row = row_of(cp, unicode::kBreaks16, unicode::kBreaks16Count);
  return row == nullptr ? kOther : row[2];
}

bool extends(uint32_t kind) { return kind == kExtend || kind == kPlainExtend || kind == kLinker || kind == kJoiner; }

// What the rules ask of the characters before, besides the last one.
struct ClusterState {
  uint32_t last;
  bool regional_pair = false;      // an even number of Regional_Indicators ends here
  bool pictograph = false;         // Pictographic Extend*
  bool joined_pictograph = false;  // Pictographic Extend* ZWJ
  bool consonant = false;          // Consonant [Extend Linker]*
  bool linked_consonant = false;   // the same with a Linker in it
};

// Whether text goes on without a border: rules GB3 to GB13.
bool joins(const ClusterState& state, uint32_t next) {
  const uint32_t last = state.last;
  if (last == kCr && next == kLf) return true;
  if (last == kCr || last == kLf || last == kControl || next == kCr || next == kLf || next == kControl) return false;
  if (last == kL && (next == kL || next == kV || next == kLv || next == kLvt)) return true;
  if ((last == kLv || last == kV) && (next == kV || next == kT)) return true;
  if ((last == kLvt || last == kT) && next == kT) return true;
  if (extends(next) || next == kSpacingMark || last == kPrepend) return true;
  if (state.linked_consonant && next == kConsonant) return true;
  if (state.joined_pictograph && next == kPictographic) return true;
  return last == kRegional && next == kRegional && !state.regional_pair;
}

void advance(ClusterState& state, uint32_t next) {
  state.regional_pair = next == kRegional && state.last == kRegional && !state.regional_pair;
  state.joined_pictograph = next == kJoiner && state.pictograph;
  state.pictograph = next == kPictographic || (state.pictograph && extends(next) && next != kJoiner);
  const bool conjunct = next == kExtend || next == kLinker || next == kJoiner;
  state.linked_consonant = state.consonant && conjunct && (state.linked_consonant || next == kLinker);
  state.consonant = next == kConsonant || (state.consonant && conjunct);
  state.last = next;
}

}  // namespace

bool is_mark_9(uint32_t cp) { return cp >= 0x300 && row_of(cp, unicode::kMarks9, unicode::kMarks9Count) != nullptr; }

bool is_nonspacing_8(uint32_t cp) {
  return cp >= 0x300 && row_of(cp, unicode::kNonspacing8, unicode::kNonspacing8Count) != nullptr;
}

bool is_punctuation_8(uint32_t cp) {
  if (cp < 0x80) {
    return (cp >= 0x21 && cp < 0x30) || (cp >= 0x3A && cp < 0x41) || (cp >= 0x5B && cp < 0x61) ||
           (cp >= 0x7B && cp < 0x7F);
  }
  return row_of(cp, unicode::kPunctuation8, unicode::kPunctuation8Count) != nullptr;
}

bool is_other_8(uint32_t cp) {
  if (cp < 0x7F) return cp < 0x20;
  return row_of(cp, unicode::kOther8, unicode::kOther8Count) != nullptr;
}

bool is_number_17(uint32_t cp) {
  if (cp < 0x80) return cp >= '0' && cp <= '9';
  return row_of(cp, unicode::kNumbers17, unicode::kNumbers17Count) != nullptr;
}

bool is_han(uint32_t cp) { return cp >= 0x2E80 && row_of(cp, unicode::kHan, unicode::kHanCount) != nullptr; }

uint32_t script_9(uint32_t cp) {
  const uint32_t* row = row_of(cp, unicode::kScripts9, unicode::kScripts9Count);
  return row == nullptr ? 0 : row[2];
}

void append_lower(std::string& out, uint32_t cp) {
  if (cp < 0x80) {
    out.push_back(static_cast<char>(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
    return;
  }
  if (cp == 0x130) {
    out.append("i\xCC\x87");
    return;
  }
  const auto* begin = unicode::kLower17;
  const auto* end = begin + unicode::kLower17Count;
  const auto* it = std::lower_bound(begin, end, cp, [](const uint32_t(&row)[2], uint32_t x) { return row[0] < x; });
  utf8_append(out, it != end && (*it)[0] == cp ? (*it)[1] : cp);
}

size_t grapheme_end(std::string_view text, size_t pos) {
  ClusterState state{.last = kControl};
  advance(state, break_of(char_at(text, pos)));
  for (pos += char_length(text[pos]); pos < text.size(); pos += char_length(text[pos])) {
    const uint32_t next = break_of(char_at(text, pos));
    if (!joins(state, next)) break;
    advance(state, next);
  }
  return pos;
}

}  // namespace ingot
