// ECMA-262 patterns, as JSON Schema's `pattern` and users' regexes write them, to expressions over UTF-8 bytes.
//
// Taken: alternatives, groups (capturing, named, non-capturing), classes, . \d \w \s \D \W \S \p{…} \P{…} (general
// categories, White_Space, ASCII, Any; Script= is refused by name), \uXXXX, \u{…}, surrogate pairs, \xXX, \cX, control
// escapes, greedy and lazy quantifiers (the same language), ^ and $ wherever they can be decided, \b and \B never.
// Look-around, back-references and word borders are refused by name: they throw GrammarError with the byte's place.
#pragma once

#include <string_view>

#include "grammar/regex/regex.h"

namespace ingot::grammar {

struct PatternOptions {
  bool search = false;       // may match anywhere in the text, as JSON Schema's `pattern`; otherwise all of it
  bool ignore_case = false;  // ASCII letters, and what their simple lower case pairs
  bool dot_all = false;      // . matches line ends too
  size_t max_depth = 512;    // of groups
};

// The texts that `pattern` matches: UTF-8, the characters themselves, nothing escaped.
Expr parse_pattern(Regexes& pool, std::string_view pattern, const PatternOptions& options = {});

}  // namespace ingot::grammar
