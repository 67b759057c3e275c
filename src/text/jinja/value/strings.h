// Python's operations on str, on Text: what is kept keeps its writer.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/jinja/value/value.h"

namespace ingot::jinja {

enum class CaseMode { kUpper, kLower, kTitle, kCapitalize, kSwap };
Text map_case(Interp& interp, const Text& text, CaseMode mode);
// The filter `title`, which begins a word after white space and opening brackets only.
Text title_words(Interp& interp, const Text& text);

// Without `chars`: white space.
Text strip_text(Interp& interp, const Text& text, const Text* chars, bool left, bool right);
Text replace_text(Interp& interp, const Text& text, const Text& from, const Text& to, int64_t count);

// The first place of `what` at or after `from`, or npos. In time linear in both: std::string::find is not.
size_t find_text(Interp& interp, std::string_view text, std::string_view what, size_t from);
size_t find_text_back(Interp& interp, std::string_view text, std::string_view what);

struct Span {
  size_t begin, end;
};
std::vector<Span> split_space(Interp& interp, const Text& text, int64_t max);
std::vector<Span> split_space_back(Interp& interp, const Text& text, int64_t max);
std::vector<Span> split_by(Interp& interp, const Text& text, const Text& separator, int64_t max, bool from_back);
// Lines without their ends, or with them.
std::vector<Span> split_lines(Interp& interp, const Text& text, bool keep_ends);
Value spans_to_list(Interp& interp, const Value& str, const std::vector<Span>& spans);

// `text` with `fill` before and after it.
Text pad(Interp& interp, const Text& text, int64_t before, int64_t after, std::string_view fill);

}  // namespace ingot::jinja
