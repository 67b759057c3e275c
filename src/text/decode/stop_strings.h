// Ends a stream of text before the first stop string, holding back only what may become one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// However the text is cut into pushes, the texts given out, joined, are the text before the stop string that is
// completed first; of several completed by the same byte, the longest. Time is linear in the text for each stop string.
class StopStrings {
 public:
  StopStrings() = default;
  // Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  // Text that may be shown now. Nothing more comes once matched() is set.
  std::string push(std::string_view text);
  // What was held back, when no more text comes.
  std::string finish();

  // The stop string that ended the text.
  const std::optional<std::string>& matched() const { return matched_; }
  bool stopped() const { return matched_.has_value(); }

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> fallback;  // [n]: the longest proper prefix that ends the first n bytes (Knuth, Morris, Pratt)
    size_t matched = 0;            // bytes of `text` that the stream ends with
  };
  std::vector<Stop> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace ingot
