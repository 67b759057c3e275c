// The alphabet in which byte-level vocabularies are written: each byte is one printable character, so that "Ġ" is a
// space and "Ċ" a newline.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// Appends the bytes that `text` stands for. False, with nothing appended, where a character is not of the alphabet.
bool append_byte_level(std::string_view text, std::string& out);

// Appends the letters that `bytes` are written with.
void append_byte_letters(std::string_view bytes, std::string& out);

}  // namespace ingot
