// The error of bad files, configurations and requests. Thrown only while loading, parsing and
// serving; caught in main() and in the HTTP handler. The message names the part that speaks in
// brackets, then what and where: "[gguf] tensor 'blk.3.ffn_up' has 5 dimensions, at most 4 allowed".
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ingot {

class Error : public std::runtime_error {
 public:
  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace ingot
