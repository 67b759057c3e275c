// How a text falls into pieces that the model encodes one by one: a list of stages, each splitting or rewriting what
// the one before it gave.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/split/matcher.h"
#include "text/split/scanners.h"

namespace ingot {

// What becomes of a match and of the text between matches.
enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Before which pieces Metaspace puts its mark.
enum class MetaspacePrepend : uint8_t { kNever, kFirst, kAlways };

struct PreTokenizerStage {
  enum class Kind : uint8_t {
    kScan,         // split where `scanner` matches
    kLiteral,      // split where `text` (not empty) stands
    kMetaspace,    // spaces become `text`; one is put before a piece as `prepend` says; split before each if `split`
    kPrefixSpace,  // a space before each piece that does not begin with one
    kByteLevel,    // each byte becomes a letter (text/model/byte_level.h)
    kMatch,        // split where `matcher` matches
    kScripts,      // split where the script changes; what stands before the first character that has one is dropped
    kFixedLength,  // split into pieces of `length` characters
  };
  using Prepend = MetaspacePrepend;

  Kind kind = Kind::kScan;
  Scanner scanner = nullptr;
  std::string text = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what matches counts as text between, and the other way round
  Prepend prepend = Prepend::kNever;
  bool split = false;
  std::shared_ptr<const Matcher> matcher = nullptr;
  size_t length = 0;  // not 0
};

// The stage that splits by a regular expression: a scanner where there is one, otherwise a matcher. Throws Error naming
// the pattern.
PreTokenizerStage pattern_stage(std::string_view pattern, SplitBehavior behavior = SplitBehavior::kIsolated,
                                bool invert = false);

class PreTokenizer {
 public:
  // The memory of a split, reused from call to call.
  struct Scratch {
    std::vector<Piece> pieces;  // the result, in the text's order; none is empty
    std::vector<Piece> next;
    std::vector<std::pair<Piece, bool>> matches;
    std::vector<Piece> found;
    std::string buffer;
    std::string next_buffer;

    // Gives up memory of more than `bytes`.
    void trim(size_t bytes);
  };

  void add(PreTokenizerStage stage) { stages_.push_back(std::move(stage)); }

  // Splits `text` into scratch.pieces and returns the text they cut: `text`, or a rewriting of it in `scratch`.
  // `at_start`: `text` begins where the whole input does. REQUIRES: valid UTF-8, less than 4 GiB.
  std::string_view split(std::string_view text, bool at_start, Scratch& scratch) const;

 private:
  std::vector<PreTokenizerStage> stages_;
};

}  // namespace ingot
