// What happens to a text before it is split: a list of steps, each a rewriting of the whole text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/split/charsmap.h"
#include "text/split/matcher.h"

namespace ingot {

struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kPrepend,          // `to` before a text that is not empty
    kReplace,          // every `from` (not empty) by `to`, left to right
    kReplaceMatches,   // every match of `matcher` by `to`
    kStrip,            // White_Space, at the left (`left`) and at the right (`right`)
    kSqueezeSpaces,    // runs of U+0020 to one, none at either end
    kLowercase,        // character by character
    kStripMarks,       // marks (Mn, Mc, Me) vanish
    kStripNonspacing,  // marks of category Mn vanish
    kBertClean,        // control characters vanish, other White_Space becomes U+0020
    kBertIdeographs,   // a space before and behind each CJK ideograph
    kNmt,              // controls vanish, spaces and marks without width become U+0020
    kByteLevel,        // each byte becomes a letter (text/model/byte_level.h)
    kCharsmap,         // `charsmap` by clusters, as tokenizer.json means it
  };
  Kind kind = Kind::kNfc;
  std::string from = {};
  std::string to = {};
  bool left = false;
  bool right = false;
  std::shared_ptr<const Matcher> matcher = nullptr;
  std::shared_ptr<const Charsmap> charsmap = nullptr;
};

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }

  // `text` itself where nothing changes, otherwise a view of `buffer`. Throws Error where the result would be larger
  // than 64 times the text and 16 MiB. REQUIRES: valid UTF-8, not inside `buffer`.
  std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// Appends to `out` the text with every match replaced by `to`; false where there is no match, and then nothing is
// appended. Throws Error where the result would have more than `limit` bytes.
bool replace_matches(const Matcher& matcher, std::string_view text, std::string_view to, size_t limit,
                     std::string& out);

// Every `from` in `text` by `to`, left to right. Throws Error where the result would have more than `limit` bytes.
// REQUIRES: `from` is not empty.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to, size_t limit = SIZE_MAX);

}  // namespace ingot
