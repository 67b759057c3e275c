// Every match of a pattern in a text: what scanners cannot say, because a match depends on more than the text behind
// its first character, or because it is empty.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/split/scanners.h"

namespace ingot {

// A piece of a text: bytes [begin, end).
struct Piece {
  uint32_t begin;
  uint32_t end;
};

// Immutable: any number of threads may use it.
class Matcher {
 public:
  Matcher() = default;
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  virtual ~Matcher() = default;

  // Appends the matches in order, disjoint, some perhaps empty. Throws Error where a limit is reached.
  // REQUIRES: valid UTF-8, less than 4 GiB.
  virtual void find_all(std::string_view text, std::vector<Piece>& out) const = 0;
};

// The matcher for any regular expression of a tokenizer.json: a scanner where the pattern's exact text is known,
// otherwise compile_regex. Throws Error naming the pattern.
std::shared_ptr<const Matcher> make_matcher(std::string_view pattern);

// The pattern through PCRE2, translated from the syntax of Oniguruma, in which tokenizers write. Throws Error naming
// the pattern where it is not valid, uses what the two understand differently, or where the build has no PCRE2.
std::shared_ptr<const Matcher> compile_regex(std::string_view pattern);

// The translation alone. Throws Error naming the pattern.
std::string regex_to_pcre2(std::string_view pattern);

// Whether the build has PCRE2.
bool has_regex();

}  // namespace ingot
