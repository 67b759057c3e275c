// Small text helpers of the commands.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace ingot {

// ASCII letters only, whatever the locale says.
inline std::string lower_ascii(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// What follows the last '/'.
inline std::string base_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// An environment variable; unset and empty are the same.
inline std::string environment(const char* name, const char* fallback = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

}  // namespace ingot
