#include "text/split/scanners.h"

#include <climits>
#include <cstdint>

#include "text/chars.h"
#include "text/split/scan_steps.h"
#include "text/unicode/unicode.h"

namespace ingot {

namespace {

using namespace scan;

// (?i:'s|…)|[^\r\n\p{L}\p{N}]?[word]+|\p{N}{1,kDigits}| ?[^\s word \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// The newlines behind other characters belong to them with kTail only.
template <CategorySet kWord, int kDigits, bool kTail = true>
size_t scan_cl100k(std::string_view text, size_t pos) {
  if (const size_t end = contraction<true>(text, pos); end > pos) return end;
  const CategorySet first = category_at(text, pos);
  if (first & kWord) return skip(text, pos, kWord);
  if (first & kNumber) return scan_up_to(text, pos, kNumber, kDigits);
  const size_t next = pos + char_length(text[pos]);
  if (!is_newline(text[pos]) && next < text.size() && (category_at(text, next) & kWord)) {
    return skip(text, next, kWord);
  }
  if (const size_t end = scan_other(text, pos, kSpace | kWord | kNumber, kTail ? "\r\n" : ""); end > pos) return end;
  return scan_space<true>(text, pos);
}

// [upper]*[lower]+, where some letters are both: the upper run gives back what the lower one needs. pos: no match.
constexpr CategorySet kUpper = kLu | kLt | kLm | kLo | kMark;
constexpr CategorySet kLower = kLl | kLm | kLo | kMark;
// With kNoHan, Han characters are no letters: Kimi gives them a pattern of their own.
template <bool kNoHan>
CategorySet cased_at(std::string_view text, size_t pos) {
  const uint32_t cp = char_at(text, pos);
  return kNoHan && is_han(cp) ? 0 : category_of(cp);
}

template <bool kNoHan>
size_t skip_cased(std::string_view text, size_t pos, CategorySet set) {
  while (pos < text.size() && (cased_at<kNoHan>(text, pos) & set)) pos += char_length(text[pos]);
  return pos;
}

template <bool kNoHan>
size_t scan_capitalized(std::string_view text, size_t pos) {
  const size_t upper_end = skip_cased<kNoHan>(text, pos, kUpper);
  const size_t end = skip_cased<kNoHan>(text, upper_end, kLower);
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
template <bool kNoHan>
size_t scan_cased_word(std::string_view text, size_t pos) {
  const bool leads = !is_newline(text[pos]) && !(category_at(text, pos) & (kLetter | kNumber));
  const size_t next = leads ? pos + char_length(text[pos]) : pos;
  if (next > pos && next < text.size()) {
    if (const size_t end = scan_capitalized<kNoHan>(text, next); end > next) return end;
  }
  if (const size_t end = scan_capitalized<kNoHan>(text, pos); end > pos) return end;
  for (const size_t begin : {next, pos}) {
    const size_t end = skip_cased<kNoHan>(text, begin, kUpper);
    if (end > begin) return skip_cased<kNoHan>(text, end, kLower);
  }
  return pos;
}

template <bool kContractions, int kDigits, bool kKimi = false>
size_t scan_cased(std::string_view text, size_t pos) {
  if (kKimi && is_han(char_at(text, pos))) return skip_han(text, pos);
  if (const size_t end = scan_cased_word<kKimi>(text, pos); end > pos) {
    return kContractions && end < text.size() ? contraction<true>(text, end) : end;
  }
  if (category_at(text, pos) & kNumber) return scan_up_to(text, pos, kNumber, kDigits);
  const std::string_view tail = kKimi ? "\r\n" : "\r\n/";
  if (const size_t end = scan_other(text, pos, kSpace | kLetter | kNumber, tail); end > pos) return end;
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
size_t scan_o200k_digit(std::string_view text, size_t pos) { return scan_cased<true, 1>(text, pos); }
size_t scan_kimi(std::string_view text, size_t pos) { return scan_cased<true, 3, true>(text, pos); }
size_t scan_seed(std::string_view text, size_t pos) { return scan_cl100k<kLetter, 1, false>(text, pos); }
size_t scan_minicpm5(std::string_view text, size_t pos) { return scan_cl100k<kLetter, INT_MAX>(text, pos); }
size_t scan_tekken(std::string_view text, size_t pos) { return scan_cased<false, 1>(text, pos); }
size_t scan_tekken_1_3(std::string_view text, size_t pos) { return scan_cased<false, 3>(text, pos); }

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

}  // namespace ingot
