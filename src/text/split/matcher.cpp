#include "text/split/matcher.h"

#include "text/chars.h"
#include "text/split/patterns.h"
#include "text/split/scan_steps.h"
#include "text/unicode/unicode.h"

namespace ingot {

namespace {

using namespace scan;

class ScannerMatcher final : public Matcher {
 public:
  explicit ScannerMatcher(Scanner scanner) : scanner_(scanner) {}
  void find_all(std::string_view text, std::vector<Piece>& out) const override {
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = scanner_(text, pos);
      if (end == pos) {
        pos += char_length(text[pos]);
        continue;
      }
      out.push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(end)});
      pos = end;
    }
  }

 private:
  Scanner scanner_;
};

// \w of Oniguruma, which knows no joiners but all numbers of Latin-1.
bool is_regex_word(uint32_t cp) {
  if (cp < 0x100 && (category_of(cp) & kNumber)) return true;
  return is_word_character(cp) && cp != 0x200C && cp != 0x200D;
}

// Runs of \d in groups of three, counted from the right: with kWhole \d{1,3}(?=(?:\d{3})*\b), which takes no run that a
// word character follows; otherwise the places before the groups, (?=(\d{3})+(?!\d)).
template <bool kWhole>
class DigitGroups final : public Matcher {
 public:
  void find_all(std::string_view text, std::vector<Piece>& out) const override {
    constexpr CategorySet kDigit = category_bit(Category::kNd);
    for (size_t pos = 0; pos < text.size();) {
      size_t end = pos;
      size_t left = 0;
      for (; end < text.size() && (category_at(text, end) & kDigit); end += char_length(text[end])) left++;
      if (left == 0) {
        pos += char_length(text[pos]);
        continue;
      }
      if (kWhole && end < text.size() && is_regex_word(char_at(text, end))) {
        pos = end;
        continue;
      }
      while (left > 0) {
        const size_t take = left % 3 == 0 ? 3 : left % 3;
        const size_t next = scan_up_to(text, pos, kDigit, static_cast<int>(take));
        if (kWhole || take == 3)
          out.push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(kWhole ? next : pos)});
        pos = next;
        left -= take;
      }
    }
  }
};

}  // namespace

std::shared_ptr<const Matcher> make_matcher(std::string_view pattern) {
  if (const Scanner scanner = find_scanner(pattern)) return std::make_shared<ScannerMatcher>(scanner);
  if (pattern == kDigitGroupsPattern) return std::make_shared<DigitGroups<true>>();
  if (pattern == kDigitCutsPattern) return std::make_shared<DigitGroups<false>>();
  return compile_regex(pattern);
}

}  // namespace ingot
