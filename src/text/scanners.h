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
size_t scan_llama3(std::string_view text, size_t pos);            // cl100k with numbers of up to three digits
size_t scan_qwen2(std::string_view text, size_t pos);             // the same with single digits
size_t scan_qwen35(std::string_view text, size_t pos);            // the same with marks as letters
size_t scan_o200k(std::string_view text, size_t pos);             // GPT-4o: words split where case rises
size_t scan_tekken(std::string_view text, size_t pos);            // the same, single digits, no contractions
size_t scan_deepseek3(std::string_view text, size_t pos);         // the last of three; may leave gaps
size_t scan_number(std::string_view text, size_t pos);            // \p{N}
size_t scan_numbers(std::string_view text, size_t pos);           // \p{N}+
size_t scan_number_1_3(std::string_view text, size_t pos);        // \p{N}{1,3}
size_t scan_ascii_triple(std::string_view text, size_t pos);      // [0-9][0-9][0-9]
size_t scan_cjk_kana(std::string_view text, size_t pos);          // [一-龥぀-ゟ゠-ヿ]+
size_t scan_punctuation_run(std::string_view text, size_t pos);   // [\p{P}\$\+<=>\^~\|]+
size_t scan_punctuation_tick(std::string_view text, size_t pos);  // [\p{P}\$\+<=>\^~\|`]+

}  // namespace ingot
