// How a text falls into pieces that the model encodes one by one: a list of stages, each splitting or rewriting what
// the one before it gave.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/scanners.h"

namespace ingot {

// A piece of a text: bytes [begin, end), never empty.
struct Piece {
  uint32_t begin;
  uint32_t end;
};

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
    kByteLevel,    // each byte becomes a letter (text/byte_level.h)
  };
  using Prepend = MetaspacePrepend;

  Kind kind = Kind::kScan;
  Scanner scanner = nullptr;
  std::string text = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what matches counts as text between, and the other way round
  Prepend prepend = Prepend::kNever;
  bool split = false;
};

class PreTokenizer {
 public:
  // The memory of a split, reused from call to call.
  struct Scratch {
    std::vector<Piece> pieces;  // the result, in the text's order
    std::vector<Piece> next;
    std::vector<std::pair<Piece, bool>> matches;
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
