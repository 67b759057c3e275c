// The names by which GGUF files say how a byte-level vocabulary splits text (tokenizer.ggml.pre).
#pragma once

#include <array>
#include <string_view>

#include "text/scanners.h"

namespace ingot {

struct PreName {
  std::string_view name;
  std::array<Scanner, 4> scanners;  // one after the other, each isolating its matches; nullptr behind the last
  bool ignore_merges = false;       // a piece that is a token is that token
  bool add_bos = false;             // where the file does not say
  bool nfc = false;                 // the published tokenizer normalizes
};

// nullptr where the name is not known.
const PreName* find_pre_name(std::string_view name);

}  // namespace ingot
