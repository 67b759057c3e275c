// Tokens back to text: an ordered list of steps over the list of tokens' texts, each of which may change, join or drop
// some. Tokens come one by one and text leaves as soon as no later token can change it; decoding a whole list is the
// same thing with an end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/split/matcher.h"

namespace ingot {

struct DecoderStep {
  enum class Kind : uint8_t {
    kByteLevel,       // written in the alphabet of byte_level.h; what is not stays. All become one text
    kByteFallback,    // a run of <0x0A> is the text of its bytes, or U+FFFD for each where they are no UTF-8
    kByteTokens,      // <0x0A> is that byte, whatever its neighbours
    kMetaspace,       // every `from` a space; in the first token nothing, if `flag`
    kReplace,         // every `from` (not empty) by `to`
    kReplaceMatches,  // every match of `matcher` by `to`
    kFuse,            // all become one text
    kStrip,           // up to `start` of the character `from` at the beginning, up to `stop` at the end
    kWordPiece,       // but for the first: without the prefix `from`, or behind a space; then tidied if `flag`
    kBpeSuffix,       // every `from` (not empty) a space; in the last token nothing
    kCtc,             // no token twice in a row, no `from`; if `flag` tidied, and `to` (not empty) a space
    kSpaced,          // all become one text, a space between two
    kRepair,          // invalid UTF-8 is U+FFFD; all become one text
  };
  Kind kind = Kind::kFuse;
  std::string from = {};
  std::string to = {};
  size_t start = 0;
  size_t stop = 0;
  bool flag = false;
  std::shared_ptr<const Matcher> matcher = nullptr;
};

class Decoder {
 public:
  static constexpr size_t kMaxSteps = 64;

  // Where a text stands while its tokens are pushed one by one. Of one decoder.
  struct State {
    // The tokens continue a text that was shown already, so that a leading space belongs to it.
    bool continues = false;

    struct Step {
      std::string held;    // text of a token that is not whole yet
      std::string last;    // the token before, or the run of bytes before
      size_t count = 0;    // tokens passed, or characters stripped
      size_t matched = 0;  // bytes of a match not yet whole, of a run that are characters, or characters held back
      bool flag = false;   // see the steps
    };
    std::vector<Step> steps = {};
    std::string pending = {};  // the beginning of a character, at most three bytes between calls
  };

  // Throws Error where there are kMaxSteps already.
  void add(DecoderStep step);
  const std::vector<DecoderStep>& steps() const { return steps_; }
  // Whether it does nothing but write bytes for the alphabet of byte_level.h.
  bool is_byte_level() const { return steps_.size() == 1 && steps_[0].kind == DecoderStep::Kind::kByteLevel; }

  // Appends the text that is settled by one more token, whose entry in the vocabulary is `entry`: valid UTF-8, never a
  // part of a character. A step over one fused text that needs all of it (kWordPiece, kBpeSuffix, kCtc, kByteLevel,
  // kReplaceMatches)
  // holds it until finish().
  void push(std::string_view entry, State& state, std::string& out) const;
  // Appends the rest. The beginning of a character is U+FFFD.
  void finish(State& state, std::string& out) const;

  // The bytes that a token stands for in the middle of a text.
  std::string bytes(std::string_view entry) const;

 private:
  friend class DecoderRun;

  std::vector<DecoderStep> steps_;
  std::vector<std::vector<uint32_t>>
      fallbacks_;            // of each step that looks for `from`: as text/decode/stop_strings.h has it
  std::vector<bool> fused_;  // whether one text comes to the step
};

}  // namespace ingot
