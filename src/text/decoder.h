// Tokens back to text: what a token's entry in the vocabulary means as bytes, and what the beginning of a text loses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

// The steps that a vocabulary asks for, applied in this order.
struct Decoder {
  bool byte_level = false;                                   // the entry is written in the alphabet of byte_level.h
  bool byte_fallback = false;                                // <0x0A> is a byte
  std::vector<std::pair<std::string, std::string>> replace;  // in each token, every first by second
  std::string drop_in_first;  // in the text's first token every occurrence is dropped, instead of replaced
  int strip_left = 0;         // spaces that the text loses at its beginning, at most

  // Where a text stands while its tokens are appended one by one.
  struct State {
    bool first = true;    // no token appended yet
    int strip_left = -1;  // spaces still to lose; below 0: as the decoder says
  };
  // Appends the bytes of a token whose entry is `entry`.
  void append(std::string_view entry, State& state, std::string& out) const;
  // The bytes that it stands for, wherever it stands.
  std::string bytes(std::string_view entry) const;
};

}  // namespace ingot
