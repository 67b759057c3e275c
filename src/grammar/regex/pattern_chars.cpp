#include "grammar/regex/pattern_chars.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "text/unicode/unicode.h"

namespace ingot::grammar {
namespace {

struct Named {
  std::string_view name, other;  // short, long; of some a third: below
  CategorySet set;
};

constexpr CategorySet bit(Category category) { return category_bit(category); }
constexpr CategorySet kCased = kLu | kLl | kLt;
constexpr CategorySet kSeparator = bit(Category::kZs) | bit(Category::kZl) | bit(Category::kZp);
constexpr CategorySet kOther =
    bit(Category::kCc) | bit(Category::kCf) | bit(Category::kCo) | bit(Category::kCs) | bit(Category::kCn);

constexpr std::array kNames = {
    Named{"L", "Letter", kLetter},
    Named{"LC", "Cased_Letter", kCased},
    Named{"Lu", "Uppercase_Letter", kLu},
    Named{"Ll", "Lowercase_Letter", kLl},
    Named{"Lt", "Titlecase_Letter", kLt},
    Named{"Lm", "Modifier_Letter", kLm},
    Named{"Lo", "Other_Letter", kLo},
    Named{"M", "Mark", kMark},
    Named{"M", "Combining_Mark", kMark},
    Named{"Mn", "Nonspacing_Mark", bit(Category::kMn)},
    Named{"Mc", "Spacing_Mark", bit(Category::kMc)},
    Named{"Me", "Enclosing_Mark", bit(Category::kMe)},
    Named{"N", "Number", kNumber},
    Named{"Nd", "Decimal_Number", bit(Category::kNd)},
    Named{"Nd", "digit", bit(Category::kNd)},
    Named{"Nl", "Letter_Number", bit(Category::kNl)},
    Named{"No", "Other_Number", bit(Category::kNo)},
    Named{"P", "Punctuation", kPunctuation},
    Named{"P", "punct", kPunctuation},
    Named{"Pc", "Connector_Punctuation", bit(Category::kPc)},
    Named{"Pd", "Dash_Punctuation", bit(Category::kPd)},
    Named{"Ps", "Open_Punctuation", bit(Category::kPs)},
    Named{"Pe", "Close_Punctuation", bit(Category::kPe)},
    Named{"Pi", "Initial_Punctuation", bit(Category::kPi)},
    Named{"Pf", "Final_Punctuation", bit(Category::kPf)},
    Named{"Po", "Other_Punctuation", bit(Category::kPo)},
    Named{"S", "Symbol", kSymbol},
    Named{"Sm", "Math_Symbol", bit(Category::kSm)},
    Named{"Sc", "Currency_Symbol", bit(Category::kSc)},
    Named{"Sk", "Modifier_Symbol", bit(Category::kSk)},
    Named{"So", "Other_Symbol", bit(Category::kSo)},
    Named{"Z", "Separator", kSeparator},
    Named{"Zs", "Space_Separator", bit(Category::kZs)},
    Named{"Zl", "Line_Separator", bit(Category::kZl)},
    Named{"Zp", "Paragraph_Separator", bit(Category::kZp)},
    Named{"C", "Other", kOther},
    Named{"Cc", "Control", bit(Category::kCc)},
    Named{"Cc", "cntrl", bit(Category::kCc)},
    Named{"Cf", "Format", bit(Category::kCf)},
    Named{"Cs", "Surrogate", bit(Category::kCs)},
    Named{"Co", "Private_Use", bit(Category::kCo)},
    Named{"Cn", "Unassigned", bit(Category::kCn)},
};

// All characters are asked once for each set: 3 ms, then kept.
std::vector<CharRange> chars_of(CategorySet set) {
  static std::mutex mutex;
  static std::map<CategorySet, std::vector<CharRange>> known;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = known.try_emplace(set);
  if (is_new) {
    std::vector<CharRange>& ranges = it->second;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
      if ((category_of(cp) & set) == 0) continue;
      if (!ranges.empty() && ranges.back().last + 1 == cp) {
        ranges.back().last = cp;
      } else {
        ranges.push_back({cp, cp});
      }
    }
  }
  return it->second;
}

}  // namespace

std::vector<CharRange> digit_chars() { return {{'0', '9'}}; }
std::vector<CharRange> word_chars() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
std::vector<CharRange> space_chars() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
std::vector<CharRange> line_end_chars() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

std::optional<std::vector<CharRange>> property_chars(std::string_view name) {
  if (name == "Any") return std::vector<CharRange>{{0, 0x10FFFF}};
  if (name == "ASCII") return std::vector<CharRange>{{0, 0x7F}};
  if (name == "Assigned") return other_chars(chars_of(bit(Category::kCn)));
  if (name == "White_Space" || name == "space") return chars_of(kSpace);
  for (const std::string_view prefix : {"gc=", "General_Category="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  const auto it = std::ranges::find_if(kNames, [&](const Named& one) { return one.name == name || one.other == name; });
  if (it == kNames.end()) return std::nullopt;
  return chars_of(it->set);
}

std::vector<CharRange> with_both_cases(std::vector<CharRange> ranges) {
  const size_t count = ranges.size();
  for (size_t i = 0; i < count; i++) {
    const CharRange range = ranges[i];
    for (const uint32_t from : {uint32_t{'A'}, uint32_t{'a'}}) {
      const uint32_t first = std::max(range.first, from), last = std::min(range.last, from + 25);
      if (first <= last) ranges.push_back({first ^ 0x20, last ^ 0x20});
    }
  }
  return normalized(std::move(ranges));
}

}  // namespace ingot::grammar
