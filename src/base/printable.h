// Texts of other machines that become a part of a line on somebody's terminal: printable ASCII alone.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ingot {

constexpr bool is_printable(char c) { return c >= 0x20 && c <= 0x7e; }

// With "?" for all else.
inline std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return !is_printable(c); }, '?');
  return out;
}

}  // namespace ingot
