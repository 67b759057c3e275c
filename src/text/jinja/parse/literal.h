// Number and string literals of templates, and numbers as Python reads and prints them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::jinja {

struct NumberLiteral {
  size_t size = 0;  // 0: no number stands there
  bool is_float = false;
  bool too_large = false;  // an integer beyond 64 bits
  int64_t integer = 0;
  double real = 0;
};
// The literal at s[pos].
NumberLiteral read_number(std::string_view s, size_t pos);

// The inside of a quoted string with its escapes replaced. Returns what is wrong, or nothing.
std::string_view unescape(std::string_view s, std::string& out);

// Python's int(text, base) and float(text); nothing when it is not a number, or beyond 64 bits.
std::optional<int64_t> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

// Python's repr(float): the shortest digits that read back the same, "1.0", "1e+16", "nan", "inf".
std::string float_repr(double value);

}  // namespace ingot::jinja
