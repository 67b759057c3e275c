#include "text/split/patterns.h"
#include "text/split/scanners.h"

namespace ingot {

namespace {

struct Known {
  std::string_view pattern;
  Scanner scanner;
};
// clang-format off
constexpr Known kKnown[] = {
    {kGpt2Pattern, scan_gpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2},
    {kLlama3Pattern, scan_llama3},
    {kQwen2Pattern, scan_qwen2},
    {kQwen35Pattern, scan_qwen35},
    {kO200kPattern, scan_o200k},
    {kTekkenPattern, scan_tekken},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
     " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     scan_deepseek3},
    {kNumberPattern, scan_number},
    {R"(\p{N}{1})", scan_number},
    {kNumbersPattern, scan_numbers},
    {kNumber1To3Pattern, scan_number_1_3},
    {kAsciiTriplePattern, scan_ascii_triple},
    {kCjkKanaPattern, scan_cjk_kana},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", scan_gpt2},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     scan_llama3},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     scan_qwen2},
    {kSeedPattern, scan_seed},
    {kMinicpm5Pattern, scan_minicpm5},
    {kExaoneMoePattern, scan_exaone_moe},
    {kJais2Pattern, scan_jais2},
    {kKimiPattern, scan_kimi},
    {kO200kDigitPattern, scan_o200k_digit},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_tekken_1_3},
    {kDeepseek3Pattern, scan_deepseek3},
    {kBloomPattern, scan_bloom},
    {" ?[^(\\s|.,!?…。，、।۔،)]+", scan_bloom},
    {R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)", scan_clip},
    {"[\r\n]", scan_newline},
    {kNewlinePattern, scan_newline},
    {"[^\n]+|[\n]+", scan_lines},
    {kLinesPattern, scan_lines},
    {kSpacedLettersPattern, scan_spaced_letters},
    {kSpacedPunctuationPattern, scan_spaced_punctuation},
    {kSpacedCasedPattern, scan_spaced_cased},
    {kSpacedWidePattern, scan_spaced_wide_punctuation},
    {kCjkHangulPattern, scan_cjk_hangul},
    {kYoutuPattern, scan_youtu_cjk},
    {kSentinelPattern, scan_sentinel},
    {kImagePattern, scan_image_token},
    {kIndentPattern, scan_indent},
    {"([\t\n]|    |  )", scan_indent},
    {kTrailingSpacePattern, scan_trailing_space},
    {R"(\s+)", scan_spaces},
    {kNoSpacesPattern, scan_no_spaces},
    {" {2,}", scan_blanks},
    {R"(\d)", scan_digit},
    {R"(\d+)", scan_digits},
    {R"(\d{1,3})", scan_digit_1_3},
    {kPunctuationRunPattern, scan_punctuation_run},
    {kPunctuationTickPattern, scan_punctuation_tick},
    {kPunctuationMarkPattern, scan_punctuation_mark},
    {kAsianPattern, scan_afmoe_asian},
    {kNumberGroupsPattern, scan_number_groups},
};
}  // namespace

Scanner find_scanner(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.scanner;
  }
  return nullptr;
}

}  // namespace ingot
