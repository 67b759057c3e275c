#include "text/scanners.h"

#include <cstdint>
#include <cstring>

#include "text/chars.h"
#include "text/unicode.h"

namespace ingot {

namespace {

CategorySet category_at(std::string_view text, size_t pos) { return category_of(char_at(text, pos)); }

size_t skip(std::string_view text, size_t pos, CategorySet set) {
  while (pos < text.size() && (category_at(text, pos) & set)) pos += char_length(text[pos]);
  return pos;
}

size_t skip_not(std::string_view text, size_t pos, CategorySet set) {
  while (pos < text.size() && !(category_at(text, pos) & set)) pos += char_length(text[pos]);
  return pos;
}

// `bytes`: ASCII characters.
size_t skip_bytes(std::string_view text, size_t pos, std::string_view bytes) {
  while (pos < text.size() && bytes.find(text[pos]) != std::string_view::npos) pos++;
  return pos;
}

bool is_newline(char c) { return c == '\r' || c == '\n'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

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

size_t scan_up_to(std::string_view text, size_t pos, CategorySet set, int max) {
  for (int i = 0; i < max && pos < text.size() && (category_at(text, pos) & set); i++) pos += char_length(text[pos]);
  return pos;
}

//  ?[^\s…]+[tail]* with `not_in` the excluded categories; pos where it does not match.
size_t scan_other(std::string_view text, size_t pos, CategorySet not_in, std::string_view tail) {
  const size_t begin = pos + (text[pos] == ' ' ? 1 : 0);
  const size_t end = skip_not(text, begin, not_in);
  return end == begin ? pos : skip_bytes(text, end, tail);
}

// (?i:'s|…)|[^\r\n\p{L}\p{N}]?[word]+|\p{N}{1,kDigits}| ?[^\s word \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <CategorySet kWord, int kDigits>
size_t scan_cl100k(std::string_view text, size_t pos) {
  if (const size_t end = contraction<true>(text, pos); end > pos) return end;
  const CategorySet first = category_at(text, pos);
  if (first & kWord) return skip(text, pos, kWord);
  if (first & kNumber) return scan_up_to(text, pos, kNumber, kDigits);
  const size_t next = pos + char_length(text[pos]);
  if (!is_newline(text[pos]) && next < text.size() && (category_at(text, next) & kWord)) {
    return skip(text, next, kWord);
  }
  if (const size_t end = scan_other(text, pos, kSpace | kWord | kNumber, "\r\n"); end > pos) return end;
  return scan_space<true>(text, pos);
}

// [upper]*[lower]+, where some letters are both: the upper run gives back what the lower one needs. pos: no match.
constexpr CategorySet kUpper = kLu | kLt | kLm | kLo | kMark;
constexpr CategorySet kLower = kLl | kLm | kLo | kMark;
size_t scan_capitalized(std::string_view text, size_t pos) {
  const size_t upper_end = skip(text, pos, kUpper);
  const size_t end = skip(text, upper_end, kLower);
  if (end > upper_end) return end;
  // The upper run can give back only up to its last letter that is both, and the match ends with that one.
  for (size_t i = upper_end; i > pos;) {
    const size_t start = char_before(text, i);
    if (category_at(text, start) & kLower) return i;
    i = start;
  }
  return pos;
}

// The two word alternatives of o200k, each with its optional leading character tried first. pos: no match.
size_t scan_cased_word(std::string_view text, size_t pos) {
  const bool leads = !is_newline(text[pos]) && !(category_at(text, pos) & (kLetter | kNumber));
  const size_t next = leads ? pos + char_length(text[pos]) : pos;
  if (next > pos && next < text.size()) {
    if (const size_t end = scan_capitalized(text, next); end > next) return end;
  }
  if (const size_t end = scan_capitalized(text, pos); end > pos) return end;
  for (const size_t begin : {next, pos}) {
    const size_t end = skip(text, begin, kUpper);
    if (end > begin) return skip(text, end, kLower);
  }
  return pos;
}

template <bool kContractions, int kDigits>
size_t scan_cased(std::string_view text, size_t pos) {
  if (const size_t end = scan_cased_word(text, pos); end > pos) {
    return kContractions && end < text.size() ? contraction<true>(text, end) : end;
  }
  if (category_at(text, pos) & kNumber) return scan_up_to(text, pos, kNumber, kDigits);
  if (const size_t end = scan_other(text, pos, kSpace | kLetter | kNumber, "\r\n/"); end > pos) return end;
  return scan_space<true>(text, pos);
}

size_t scan_punctuation_or(std::string_view text, size_t pos, std::string_view more) {
  while (pos < text.size() && ((category_at(text, pos) & kPunctuation) || more.find(text[pos]) != more.npos)) {
    pos += char_length(text[pos]);
  }
  return pos;
}

}  // namespace

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t scan_gpt2(std::string_view text, size_t pos) {
  if (const size_t end = contraction<false>(text, pos); end > pos) return end;
  const size_t begin = pos + (text[pos] == ' ' ? 1 : 0);
  if (begin < text.size()) {
    const CategorySet first = category_at(text, begin);
    if (first & kLetter) return skip(text, begin, kLetter);
    if (first & kNumber) return skip(text, begin, kNumber);
    if (!(first & kSpace)) return skip_not(text, begin, kSpace | kLetter | kNumber);
  }
  return scan_space<false>(text, pos);
}

size_t scan_llama3(std::string_view text, size_t pos) { return scan_cl100k<kLetter, 3>(text, pos); }
size_t scan_qwen2(std::string_view text, size_t pos) { return scan_cl100k<kLetter, 1>(text, pos); }
size_t scan_qwen35(std::string_view text, size_t pos) { return scan_cl100k<kLetter | kMark, 1>(text, pos); }
size_t scan_o200k(std::string_view text, size_t pos) { return scan_cased<true, 3>(text, pos); }
size_t scan_tekken(std::string_view text, size_t pos) { return scan_cased<false, 1>(text, pos); }

// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t scan_deepseek3(std::string_view text, size_t pos) {
  const CategorySet first = category_at(text, pos);
  const size_t next = pos + char_length(text[pos]);
  if (next == pos + 1 && (first & (kPunctuation | kSymbol)) && next < text.size() && is_ascii_letter(text[next])) {
    size_t end = next;
    while (end < text.size() && is_ascii_letter(text[end])) end++;
    return end;
  }
  if (first & (kLetter | kMark)) return skip(text, pos, kLetter | kMark);
  if (!is_newline(text[pos]) && !(first & (kPunctuation | kSymbol)) && next < text.size() &&
      (category_at(text, next) & (kLetter | kMark))) {
    return skip(text, next, kLetter | kMark);
  }
  const size_t begin = pos + (text[pos] == ' ' ? 1 : 0);
  const size_t end = skip(text, begin, kPunctuation | kSymbol);
  if (end > begin) return skip_bytes(text, end, "\r\n");
  return scan_space<true>(text, pos);
}

size_t scan_number(std::string_view text, size_t pos) { return scan_up_to(text, pos, kNumber, 1); }
size_t scan_numbers(std::string_view text, size_t pos) { return skip(text, pos, kNumber); }
size_t scan_number_1_3(std::string_view text, size_t pos) { return scan_up_to(text, pos, kNumber, 3); }

size_t scan_ascii_triple(std::string_view text, size_t pos) {
  for (size_t i = 0; i < 3; i++) {
    if (pos + i >= text.size() || text[pos + i] < '0' || text[pos + i] > '9') return pos;
  }
  return pos + 3;
}

size_t scan_cjk_kana(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const uint32_t cp = char_at(text, pos);
    if (!((cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF))) break;
    pos += char_length(text[pos]);
  }
  return pos;
}

size_t scan_punctuation_run(std::string_view text, size_t pos) { return scan_punctuation_or(text, pos, "$+<=>^~|"); }
size_t scan_punctuation_tick(std::string_view text, size_t pos) { return scan_punctuation_or(text, pos, "$+<=>^~|`"); }

Scanner find_scanner(std::string_view pattern) {
  struct Known {
    std::string_view pattern;
    Scanner scanner;
  };
  static constexpr Known kKnown[] = {
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       scan_llama3},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       scan_qwen2},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       scan_qwen35},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
       R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       scan_o200k},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
       R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       scan_tekken},
      {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
       " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
       scan_deepseek3},
      {R"(\p{N})", scan_number},
      {R"(\p{N}{1})", scan_number},
      {R"(\p{N}+)", scan_numbers},
      {R"(\p{N}{1,3})", scan_number_1_3},
      {R"([0-9][0-9][0-9])", scan_ascii_triple},
      {"[一-龥\u3040-ゟ゠-ヿ]+", scan_cjk_kana},
  };
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.scanner;
  }
  return nullptr;
}

}  // namespace ingot
