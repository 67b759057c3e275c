// What happens to a text before it is split: a list of steps, each a rewriting of the whole text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kPrepend,       // `to` before a text that is not empty
    kReplace,       // every `from` (not empty) by `to`, left to right
    kStrip,         // White_Space, at the left (`left`) and at the right (`right`)
    kSqueezeSpaces  // runs of U+0020 to one, none at either end
  };
  Kind kind = Kind::kNfc;
  std::string from = {};
  std::string to = {};
  bool left = false;
  bool right = false;
};

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }

  // `text` itself where nothing changes, otherwise a view of `buffer`. REQUIRES: valid UTF-8, not inside `buffer`.
  std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// Every `from` in `text` by `to`, left to right. REQUIRES: `from` is not empty.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace ingot
