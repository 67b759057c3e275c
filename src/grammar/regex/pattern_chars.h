// The classes of characters that patterns name: \d, \w, \s, . and Unicode's properties.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "grammar/regex/regex.h"

namespace ingot::grammar {

std::vector<CharRange> digit_chars();
std::vector<CharRange> word_chars();
std::vector<CharRange> space_chars();     // ECMA-262's white space and line ends
std::vector<CharRange> line_end_chars();  // what . does not match
// Of \p{name}: a general category, short or long, alone or behind "gc=" or "General_Category="; Any, ASCII, Assigned,
// White_Space. Nothing where the name is none of these.
std::optional<std::vector<CharRange>> property_chars(std::string_view name);
// With each ASCII letter in both cases.
std::vector<CharRange> with_both_cases(std::vector<CharRange> ranges);

}  // namespace ingot::grammar
