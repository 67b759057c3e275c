// Unicode properties of characters, and canonical normalization. Tables: Unicode 16.0 (normalization: 9.0), see
// tools/make_unicode_tables.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode/unicode_tables.h"

namespace ingot {

// General categories, in the order of the tables.
// clang-format off
enum class Category : uint8_t {
  kCn, kCc, kCf, kCo, kCs, kLu, kLl, kLt, kLm, kLo, kMn, kMc, kMe, kNd, kNl, kNo,
  kPc, kPd, kPs, kPe, kPi, kPf, kPo, kSm, kSc, kSk, kSo, kZs, kZl, kZp,
};
// clang-format on

// A set of categories, one bit each; kSpace is White_Space (what \s matches), which cuts across categories.
using CategorySet = uint32_t;
constexpr CategorySet category_bit(Category c) { return CategorySet{1} << static_cast<int>(c); }
inline constexpr CategorySet kLu = category_bit(Category::kLu), kLl = category_bit(Category::kLl),
                             kLt = category_bit(Category::kLt), kLm = category_bit(Category::kLm),
                             kLo = category_bit(Category::kLo);
inline constexpr CategorySet kLetter = kLu | kLl | kLt | kLm | kLo;
inline constexpr CategorySet kMark =
    category_bit(Category::kMn) | category_bit(Category::kMc) | category_bit(Category::kMe);
inline constexpr CategorySet kNumber =
    category_bit(Category::kNd) | category_bit(Category::kNl) | category_bit(Category::kNo);
inline constexpr CategorySet kPunctuation = category_bit(Category::kPc) | category_bit(Category::kPd) |
                                            category_bit(Category::kPs) | category_bit(Category::kPe) |
                                            category_bit(Category::kPi) | category_bit(Category::kPf) |
                                            category_bit(Category::kPo);
inline constexpr CategorySet kSymbol = category_bit(Category::kSm) | category_bit(Category::kSc) |
                                       category_bit(Category::kSk) | category_bit(Category::kSo);
inline constexpr CategorySet kSpace = CategorySet{1} << 31;

// REQUIRES: cp <= 0x10FFFF.
inline uint8_t unicode_class(uint32_t cp) {
  return unicode::kStage2[(static_cast<uint32_t>(unicode::kStage1[cp >> 7]) << 7) | (cp & 127)];
}

// category_of for ASCII, which most texts are made of: one look instead of two.
constexpr std::array<CategorySet, 128> ascii_categories() {
  std::array<CategorySet, 128> sets{};
  const auto all = [&](std::string_view characters, Category category) {
    for (const char c : characters) sets[static_cast<size_t>(c)] = category_bit(category);
  };
  for (size_t c = 0; c < 128; c++) sets[c] = category_bit(c < 32 || c == 127 ? Category::kCc : Category::kPo);
  for (size_t c = 9; c <= 13; c++) sets[c] |= kSpace;
  sets[' '] = category_bit(Category::kZs) | kSpace;
  for (size_t c = 'A'; c <= 'Z'; c++) sets[c] = kLu;
  for (size_t c = 'a'; c <= 'z'; c++) sets[c] = kLl;
  all("0123456789", Category::kNd);
  all("_", Category::kPc);
  all("-", Category::kPd);
  all("([{", Category::kPs);
  all(")]}", Category::kPe);
  all("+<=>|~", Category::kSm);
  all("$", Category::kSc);
  all("^`", Category::kSk);
  return sets;
}
inline constexpr std::array<CategorySet, 128> kAsciiCategories = ascii_categories();

// The category as a set of one, with kSpace added for White_Space.
inline CategorySet category_of(uint32_t cp) {
  if (cp < 128) return kAsciiCategories[cp];
  const uint8_t bits = unicode_class(cp);
  return (CategorySet{1} << (bits & 31)) | (static_cast<CategorySet>(bits & 0x40) << 25);
}

// Whether \w of a regular expression matches: letters, marks, decimal digits, letter numbers, connectors and joiners.
bool is_word_character(uint32_t cp);

// Of the script Han: ideographs, radicals, iteration marks.
bool is_han(uint32_t cp);

// `text` in normalization form C or D. REQUIRES: valid UTF-8. to_nfc returns false and leaves `out` alone where `text`
// is in that form already. Time is linear in the text, but for runs of combining marks: n log n in the run.
bool to_nfc(std::string_view text, std::string& out);
std::string to_nfd(std::string_view text);
// Forms KC and KD. to_nfkc returns false and leaves `out` alone where `text` is ASCII.
bool to_nfkc(std::string_view text, std::string& out);
std::string to_nfkd(std::string_view text);

}  // namespace ingot
