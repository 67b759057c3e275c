// The names by which GGUF files say how a vocabulary of merges splits text (tokenizer.ggml.pre).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot {

// What the tokens of a vocabulary are written in.
enum class PreAlphabet : uint8_t {
  kBytes,       // the letters of byte_level.h
  kUnderlined,  // characters, with ▁ for a space
  kWords,       // characters; white space is dropped
};

struct PreName {
  std::string_view name;
  // One after the other, each isolating its matches; empty behind the last.
  std::array<std::string_view, 6> patterns;
  bool ignore_merges = false;  // a piece that is a token is that token
  bool add_bos = false;        // where the file does not say
  bool nfc = false;            // the published tokenizer normalizes
  PreAlphabet alphabet = PreAlphabet::kBytes;
};

// nullptr where the name is not known.
const PreName* find_pre_name(std::string_view name);
std::span<const PreName> all_pre_names();

}  // namespace ingot
