// What Python's operators do with the values of a template.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja/parse/ast.h"
#include "text/jinja/value/value.h"

namespace ingot::jinja {

// Error (with the place) where Python raises.
Value arithmetic(Interp& interp, Op op, Value left, const Value& right);
Value negate(Interp& interp, const Value& value, bool minus);
bool compare(Interp& interp, Compare op, const Value& left, const Value& right);

bool equals(Interp& interp, const Value& a, const Value& b);
bool less(Interp& interp, const Value& a, const Value& b);  // a < b
bool contains(Interp& interp, const Value& container, const Value& item);

// obj.name and obj[key], each falling back on the other; undefined when there is neither.
Value get_attr(Interp& interp, const Value& obj, const Value& name);
Value get_item(Interp& interp, const Value& obj, const Value& key);
// obj[start:stop:step]; kMissing or None for what is left out.
Value get_slice(Interp& interp, const Value& obj, const Value& start, const Value& stop, const Value& step);

// len(), or -1 where there is none.
int64_t length_or_none(Interp& interp, const Value& value);
int64_t length(Interp& interp, const Value& value);
inline constexpr int64_t kMaxRangeStep = int64_t{1} << 31;
Value repeat(Interp& interp, const Value& sequence, int64_t times);
// The str of one character, by index in characters. REQUIRES: index < length.
Value char_of(Interp& interp, const Value& str, size_t index);
// Both markup or one: the other is escaped first.
Value escape(Interp& interp, const Value& value);
Text escape_text(Interp& interp, const Text& text);

}  // namespace ingot::jinja
