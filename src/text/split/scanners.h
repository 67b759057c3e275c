// The patterns by which tokenizers split text into words, each as a scanner written by hand: what a regular expression
// would match, in time linear in the text and without a stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace ingot {

// The end of the match that begins at text[pos], or pos where none does. Sees no character before pos; the end of the
// text is the end of what lookaheads see. REQUIRES: valid UTF-8, pos < text.size() on a character's first byte.
using Scanner = size_t (*)(std::string_view text, size_t pos);

// The scanner for a regular expression of a tokenizer.json, chosen by its exact text; nullptr where there is none.
Scanner find_scanner(std::string_view pattern);

// By name, for tokenizers that give a name instead of a pattern. Patterns beside the names in scanners.cpp.
size_t scan_gpt2(std::string_view text, size_t pos);
size_t scan_llama3(std::string_view text, size_t pos);       // cl100k with numbers of up to three digits
size_t scan_qwen2(std::string_view text, size_t pos);        // the same with single digits
size_t scan_qwen35(std::string_view text, size_t pos);       // the same with marks as letters
size_t scan_o200k(std::string_view text, size_t pos);        // GPT-4o: words split where case rises
size_t scan_tekken(std::string_view text, size_t pos);       // the same, single digits, no contractions
size_t scan_deepseek3(std::string_view text, size_t pos);    // the last of three; may leave gaps
size_t scan_o200k_digit(std::string_view text, size_t pos);  // o200k with single digits
size_t scan_tekken_1_3(std::string_view text, size_t pos);   // tekken with numbers of up to three digits
size_t scan_kimi(std::string_view text, size_t pos);         // o200k with runs of Han characters apart
size_t scan_seed(std::string_view text, size_t pos);         // qwen2, newlines never behind punctuation
size_t scan_minicpm5(std::string_view text, size_t pos);     // cl100k with whole numbers
size_t scan_jais2(std::string_view text, size_t pos);        // cl100k with spaces in powers of two
size_t scan_exaone_moe(std::string_view text, size_t pos);   // cl100k with several words in one
size_t scan_bloom(std::string_view text, size_t pos);        // may leave gaps
size_t scan_clip(std::string_view text, size_t pos);
size_t scan_number(std::string_view text, size_t pos);            // \p{N}
size_t scan_numbers(std::string_view text, size_t pos);           // \p{N}+
size_t scan_number_1_3(std::string_view text, size_t pos);        // \p{N}{1,3}
size_t scan_ascii_triple(std::string_view text, size_t pos);      // [0-9][0-9][0-9]
size_t scan_cjk_kana(std::string_view text, size_t pos);          // [一-龥぀-ゟ゠-ヿ]+
size_t scan_punctuation_run(std::string_view text, size_t pos);   // [\p{P}\$\+<=>\^~\|]+
size_t scan_punctuation_tick(std::string_view text, size_t pos);  // [\p{P}\$\+<=>\^~\|`]+

size_t scan_newline(std::string_view text, size_t pos);         // [\r\n]
size_t scan_lines(std::string_view text, size_t pos);           // [^\n]+|[\n]+
size_t scan_trailing_space(std::string_view text, size_t pos);  // \s+$
size_t scan_spaces(std::string_view text, size_t pos);          // \s+
size_t scan_no_spaces(std::string_view text, size_t pos);       // \S+
size_t scan_blanks(std::string_view text, size_t pos);          // two spaces (U+0020) or more
size_t scan_digit(std::string_view text, size_t pos);           // \d
size_t scan_digits(std::string_view text, size_t pos);          // \d+
size_t scan_digit_1_3(std::string_view text, size_t pos);       // \d{1,3}
size_t scan_number_groups(std::string_view text, size_t pos);   // numbers in threes from the right (AFMoE)

// What the stages of the `tokenizers` library split by, which has tables of its own.
size_t scan_words_or_marks(std::string_view text, size_t pos);       // \w+|[^\w\s]+
size_t scan_space_character(std::string_view text, size_t pos);      // one White_Space
size_t scan_library_punctuation(std::string_view text, size_t pos);  // one of Unicode 8.0, or an ASCII symbol
size_t scan_library_digit(std::string_view text, size_t pos);        // \p{N} of Unicode 17.0
size_t scan_library_digits(std::string_view text, size_t pos);       // \p{N}+ of Unicode 17.0

// The steps of DeepSeek Coder, DeepSeek LLM, Youtu, AFMoE and Chameleon.
size_t scan_spaced_letters(std::string_view text, size_t pos);           // \s?\p{L}+
size_t scan_spaced_punctuation(std::string_view text, size_t pos);       // \s?\p{P}+
size_t scan_spaced_cased(std::string_view text, size_t pos);             // \s?[A-Za-zµÀ-Ö…]+
size_t scan_spaced_wide_punctuation(std::string_view text, size_t pos);  // \s?[!-/:-~！-／：-～‘-‟　-。]+
size_t scan_cjk_hangul(std::string_view text, size_t pos);               // [一-龥ࠀ-一가-퟿]+
size_t scan_youtu_cjk(std::string_view text, size_t pos);
size_t scan_afmoe_asian(std::string_view text, size_t pos);
size_t scan_sentinel(std::string_view text, size_t pos);          // <sentinel:[0-9]+>
size_t scan_image_token(std::string_view text, size_t pos);       // (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z
size_t scan_indent(std::string_view text, size_t pos);            // ([\t\n]|    |  )
size_t scan_punctuation_mark(std::string_view text, size_t pos);  // [\p{P}!-/:-@\[-`{-~]

}  // namespace ingot
