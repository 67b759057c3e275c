// Patterns of single model families. Each function's pattern stands above it.
#include <cstdint>

#include "text/chars.h"
#include "text/split/scan_steps.h"
#include "text/split/scanners.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_library.h"

namespace ingot {

namespace {

using namespace scan;

// A cased letter, as DeepSeek LLM lists them.
constexpr CharRange kCasedLetters[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
    {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x376},     {0x377, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},
    {0x388, 0x38A},     {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},
    {0x48A, 0x52F},     {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},
    {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},
    {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},
    {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},
    {0x2126, 0x2126},   {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},
    {0x213C, 0x213F},   {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2183},   {0x2184, 0x2184},
    {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},
    {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},
    {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},
    {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2},
    {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};
constexpr CharRange kWidePunctuation[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                          {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
constexpr CharRange kCjkHangul[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
constexpr CharRange kHangul[] = {{0x3131, 0x318E}, {0xAC00, 0xD7A3}};
constexpr CharRange kBopomofo[] = {{0x3105, 0x312F}};
constexpr CharRange kCjkKana[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
constexpr CharRange kCjkPunctuation[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201C, 0x201D},
                                         {0x2026, 0x2026}, {0x3001, 0x303F}, {0xFE30, 0xFE4F},
                                         {0xFF01, 0xFF01}, {0xFF0C, 0xFF0C}, {0xFF1A, 0xFF1B}};
constexpr CharRange kAsian[] = {{0xE40, 0xEFF},   {0x1000, 0x109F}, {0x1100, 0x11FF},
                                {0x1780, 0x17FF}, {0x2F00, 0x2FDF}, {0x3040, 0x30FF},
                                {0x3400, 0x4DBF}, {0x4E00, 0xFAFF}, {0xFF65, 0xFF9F}};
constexpr CharRange kBloomStops[] = {{'!', '!'},     {'(', ')'},       {',', ','},       {'.', '.'},
                                     {'?', '?'},     {'|', '|'},       {0x60C, 0x60C},   {0x6D4, 0x6D4},
                                     {0x964, 0x964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};

// \s?[…]+, where `run(pos)` is the end of […]* from there. The space may itself be one of […].
template <class Run>
size_t after_space(std::string_view text, size_t pos, Run&& run) {
  if (category_at(text, pos) & kSpace) {
    const size_t next = pos + char_length(text[pos]);
    if (const size_t end = run(next); end > next) return end;
  }
  return run(pos);
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool ends_with_number(std::string_view text, size_t pos) {
  return pos > 0 && (category_at(text, char_before(text, pos)) & kNumber);
}

}  // namespace

// [\r\n]
size_t scan_newline(std::string_view text, size_t pos) { return pos + (is_newline(text[pos]) ? 1 : 0); }

// [^\n]+|[\n]+
size_t scan_lines(std::string_view text, size_t pos) {
  const size_t end = text[pos] == '\n' ? text.find_first_not_of('\n', pos) : text.find('\n', pos);
  return end == text.npos ? text.size() : end;
}

// \s+$, where $ stands before a newline too. A match that began behind another space would have begun before it.
size_t scan_trailing_space(std::string_view text, size_t pos) {
  if (pos > 0 && (category_at(text, char_before(text, pos)) & kSpace)) return pos;
  const size_t end = skip(text, pos, kSpace);
  if (end == text.size()) return end;
  for (size_t i = end; i > pos + 1; i--) {
    if (text[i - 1] == '\n') return i - 1;
  }
  return pos;
}

// \s?\p{L}+
size_t scan_spaced_letters(std::string_view text, size_t pos) {
  return after_space(text, pos, [&](size_t i) { return skip(text, i, kLetter); });
}
// \s?\p{P}+
size_t scan_spaced_punctuation(std::string_view text, size_t pos) {
  return after_space(text, pos, [&](size_t i) { return skip(text, i, kPunctuation); });
}
// \s?[A-Za-zµÀ-Ö…]+
size_t scan_spaced_cased(std::string_view text, size_t pos) {
  return after_space(text, pos, [&](size_t i) { return skip_ranges(text, i, kCasedLetters); });
}
// \s?[!-/:-~！-／：-～‘-‟　-。]+
size_t scan_spaced_wide_punctuation(std::string_view text, size_t pos) {
  return after_space(text, pos, [&](size_t i) { return skip_ranges(text, i, kWidePunctuation); });
}
// [一-龥ࠀ-一가-퟿]+
size_t scan_cjk_hangul(std::string_view text, size_t pos) { return skip_ranges(text, pos, kCjkHangul); }

// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
size_t scan_youtu_cjk(std::string_view text, size_t pos) {
  size_t end = skip_ranges(text, pos, kHangul);
  if (end == pos) end = skip_ranges(text, pos, kCjkPunctuation);
  if (end == pos) end = skip_ranges(text, pos, kBopomofo);
  return end == pos ? skip_ranges(text, pos, kCjkKana) : end;
}

// [一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+
size_t scan_afmoe_asian(std::string_view text, size_t pos) { return skip_ranges(text, pos, kAsian); }

// Runs of \p{N} in groups of three counted from the right. A group behind a number has three: the first one took what
// was left over.
size_t scan_number_groups(std::string_view text, size_t pos) {
  if (ends_with_number(text, pos)) return scan_up_to(text, pos, kNumber, 3);
  size_t count = 0;
  for (size_t i = pos; i < text.size() && (category_at(text, i) & kNumber); i += char_length(text[i])) count++;
  return scan_up_to(text, pos, kNumber, count % 3 == 0 ? 3 : static_cast<int>(count % 3));
}

//  ?[^(\s|[.,!?…。，、।۔،])]+
size_t scan_bloom(std::string_view text, size_t pos) {
  const auto stops = [&](size_t i) {
    const uint32_t cp = char_at(text, i);
    return (category_of(cp) & kSpace) || in_ranges(cp, kBloomStops);
  };
  const size_t begin = pos + (text[pos] == ' ' ? 1 : 0);
  size_t end = begin;
  while (end < text.size() && !stops(end)) end += char_length(text[end]);
  return end == begin ? pos : end;
}

// (?i:'s|…)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|
// ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+
size_t scan_exaone_moe(std::string_view text, size_t pos) {
  if (const size_t end = contraction<true>(text, pos); end > pos) return end;
  const auto letter_at = [&](size_t i) { return i < text.size() && (category_at(text, i) & kLetter); };
  const CategorySet first = category_at(text, pos);
  size_t word = pos;
  if (!is_newline(text[pos]) && !(first & (kLetter | kNumber))) word += char_length(text[pos]);
  if (letter_at(word)) {
    for (;;) {
      word = skip(text, word + char_length(text[word]), kMark);
      if (word < text.size() && text[word] == ' ' && letter_at(word + 1)) word++;
      if (!letter_at(word)) return word;
    }
  }
  if (first & kNumber) return scan_up_to(text, pos, kNumber, 1);
  if (const size_t end = scan_other(text, pos, kSpace | kLetter | kNumber, ""); end > pos) {
    return end < text.size() && (is_newline(text[end]) || text[end] == '/') ? end + 1 : end;
  }
  return scan_space<true>(text, pos);
}

// Behind cl100k's words and numbers: \s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
size_t scan_jais2(std::string_view text, size_t pos) {
  const size_t second = pos + char_length(text[pos]);
  const auto space_at = [&](size_t i) { return i < text.size() && (category_at(text, i) & kSpace); };
  if (!space_at(pos) || !space_at(second)) return scan_llama3(text, pos);
  // Behind a space that is no newline none follows in this run: what took that space looked for one.
  const size_t before = pos > 0 ? char_before(text, pos) : 0;
  const bool searched = pos > 0 && (category_at(text, before) & kSpace) && !is_newline(text[before]);
  if (!searched) {
    const size_t end = skip(text, pos, kSpace);
    for (size_t i = end; i > pos; i--) {
      if (is_newline(text[i - 1])) return i;
    }
  }
  for (const int count : {512, 256, 128, 64, 32, 16, 8, 4, 2, 1}) {
    size_t end = pos;
    int left = count;
    for (; left > 0 && end < text.size() && (category_at(text, end) & kSpace); left--) end += char_length(text[end]);
    if (left == 0 && (end == text.size() || (category_at(text, end) & kSpace))) return end;
  }
  return second;
}

// 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
size_t scan_clip(std::string_view text, size_t pos) {
  if (const size_t end = contraction<false>(text, pos); end > pos) return end;
  const CategorySet first = category_at(text, pos);
  if (first & kLetter) return skip(text, pos, kLetter);
  if (first & kNumber) return scan_up_to(text, pos, kNumber, 1);
  return skip_not(text, pos, kSpace | kLetter | kNumber);
}

// <sentinel:[0-9]+>
size_t scan_sentinel(std::string_view text, size_t pos) {
  constexpr std::string_view kName = "<sentinel:";
  if (!text.substr(pos).starts_with(kName)) return pos;
  const size_t digits = pos + kName.size();
  const size_t end = skip_bytes(text, digits, "0123456789");
  return end > digits && end < text.size() && text[end] == '>' ? end + 1 : pos;
}

// (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z
size_t scan_image_token(std::string_view text, size_t pos) {
  constexpr std::string_view kName = "IMGIMG";
  if (!text.substr(pos).starts_with(kName)) return pos;
  const size_t letters = pos + kName.size();
  size_t end = letters;
  while (end < text.size() && end < letters + 4 && text[end] >= 'A' && text[end] <= 'I') end++;
  return end > letters && end < text.size() && text[end] == 'Z' ? end + 1 : pos;
}

// ([\t\n]|    |  )
size_t scan_indent(std::string_view text, size_t pos) {
  if (text[pos] == '\t' || text[pos] == '\n') return pos + 1;
  if (text.substr(pos).starts_with("    ")) return pos + 4;
  return text.substr(pos).starts_with("  ") ? pos + 2 : pos;
}

// [\p{P}!-/:-@\[-`{-~]
size_t scan_punctuation_mark(std::string_view text, size_t pos) {
  const bool is = is_ascii_punctuation(text[pos]) || (category_at(text, pos) & kPunctuation);
  return is ? pos + char_length(text[pos]) : pos;
}

// \s+, \S+, " {2,}", \d, \d+, \d{1,3}
size_t scan_spaces(std::string_view text, size_t pos) { return skip(text, pos, kSpace); }
size_t scan_no_spaces(std::string_view text, size_t pos) { return skip_not(text, pos, kSpace); }
size_t scan_blanks(std::string_view text, size_t pos) {
  const size_t end = skip_bytes(text, pos, " ");
  return end > pos + 1 ? end : pos;
}
size_t scan_digit(std::string_view text, size_t pos) { return scan_up_to(text, pos, category_bit(Category::kNd), 1); }
size_t scan_digits(std::string_view text, size_t pos) { return skip(text, pos, category_bit(Category::kNd)); }
size_t scan_digit_1_3(std::string_view text, size_t pos) {
  return scan_up_to(text, pos, category_bit(Category::kNd), 3);
}

// \w+|[^\w\s]+
size_t scan_words_or_marks(std::string_view text, size_t pos) {
  const auto kind = [&](size_t i) {
    const uint32_t cp = char_at(text, i);
    if (is_word_character(cp)) return 1;
    return (category_of(cp) & kSpace) ? 0 : 2;
  };
  const int first = kind(pos);
  if (first == 0) return pos;
  while (pos < text.size() && kind(pos) == first) pos += char_length(text[pos]);
  return pos;
}

size_t scan_space_character(std::string_view text, size_t pos) { return scan_up_to(text, pos, kSpace, 1); }
size_t scan_library_punctuation(std::string_view text, size_t pos) {
  return is_punctuation_8(char_at(text, pos)) ? pos + char_length(text[pos]) : pos;
}
size_t scan_library_digit(std::string_view text, size_t pos) {
  return is_number_17(char_at(text, pos)) ? pos + char_length(text[pos]) : pos;
}
size_t scan_library_digits(std::string_view text, size_t pos) {
  while (pos < text.size() && is_number_17(char_at(text, pos))) pos += char_length(text[pos]);
  return pos;
}

}  // namespace ingot
