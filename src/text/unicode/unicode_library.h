// What the `tokenizers` library asks of characters, each by the Unicode version of the table inside it (the number in
// the name); and grapheme clusters. REQUIRES everywhere: cp <= 0x10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

bool is_mark_9(uint32_t cp);         // Mn, Mc, Me
bool is_nonspacing_8(uint32_t cp);   // Mn
bool is_punctuation_8(uint32_t cp);  // P, or an ASCII symbol
bool is_other_8(uint32_t cp);        // Cc, Cf, Co
bool is_number_17(uint32_t cp);      // N

// A number for the script; 0: none, as of U+0020. Hiragana and Katakana are Han.
uint32_t script_9(uint32_t cp);

// Appends the lower case of one character: two characters for U+0130, otherwise one. Knows no context: Σ is σ always.
void append_lower(std::string& out, uint32_t cp);

// Where the extended grapheme cluster that begins at text[pos] ends. REQUIRES: valid UTF-8, pos < text.size().
size_t grapheme_end(std::string_view text, size_t pos);

}  // namespace ingot
