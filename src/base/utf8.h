// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

// Decodes the character that begins at s[pos]; returns its bytes (1 to 4), or 0 with cp untouched where no valid
// character begins. pos >= s.size() gives 0.
size_t utf8_decode(std::string_view s, size_t pos, uint32_t& cp);

bool utf8_valid(std::string_view s);
// The bytes before the first that begins no valid character: s.size() where all of `s` is valid.
size_t utf8_valid_length(std::string_view s);

// Appends `cp`. A surrogate or a number above U+10FFFF is no character: U+FFFD is appended.
void utf8_append(std::string& out, uint32_t cp);

// The bytes of the maximal subpart at s[pos], where utf8_decode gives 0: the longest prefix of some valid character,
// at least 1. REQUIRES: pos < s.size().
size_t utf8_invalid_length(std::string_view s, size_t pos);

// `s` with one U+FFFD for each maximal subpart that is not valid (Unicode 3.9, as WHATWG decoders do).
std::string utf8_replace_invalid(std::string_view s);

// `s` fit for one line of an error message: valid UTF-8, control characters as \xNN, cut after `max_bytes` with "…".
std::string utf8_printable(std::string_view s, size_t max_bytes = 100);

}  // namespace ingot
