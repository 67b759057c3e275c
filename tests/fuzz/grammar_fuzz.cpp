// Fuzz target: the regular expressions that answers are held to, and the matcher above them. The first line is the
// pattern, the rest a text; the mask must agree with each token tried alone wherever the text leads. slow: states that
// an intersection makes are searched for a text.
// coverage: src/grammar/regex/pattern.cpp src/grammar/regex/regex.cpp src/grammar/regex/regex_derive.cpp
// src/grammar/regex/regex_chars.cpp src/grammar/lexer.cpp src/grammar/rows.cpp src/grammar/mask_cache.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace {

using namespace ingot::grammar;

std::shared_ptr<const Vocabulary> make_vocabulary() {
  std::vector<Vocabulary::Token> tokens;
  for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  for (const char* text : {"ab", "abc", "bc", "12", "123", "\xC3\xA9", "a ", " a", "aaaaaaaa", "\",\"", "00", "A1"}) {
    tokens.push_back({text, false});
  }
  tokens.push_back({"<end>", true});
  const int32_t end = static_cast<int32_t>(tokens.size()) - 1;
  return std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
}

void check(Matcher& matcher, const Vocabulary& vocabulary) {
  std::vector<uint32_t> words(vocabulary.words());
  if (!matcher.mask(words)) {
    if (matcher.failure() == Matcher::kDeadEnd) std::abort();  // all bytes are tokens: something can follow
    return;                                                    // a limit: it has failed and allows nothing
  }
  for (int32_t token = 0; token < vocabulary.size(); token++) {
    const bool alone = matcher.advance(token);
    if (matcher.failed()) return;
    if (alone) matcher.rollback(1);
    const bool masked = (words[static_cast<size_t>(token) / 32] >> (token & 31) & 1) != 0;
    if (alone != masked) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kPattern = 512, kText = 24;  // so that most inputs take some milliseconds
  static const std::shared_ptr<const Vocabulary> vocabulary = make_vocabulary();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  if (line > kPattern) return 0;
  const std::string_view text = input.substr(std::min(line + 1, input.size())).substr(0, kText);
  const Limits limits = {.depth = 50,
                         .nodes = 5'000,
                         .items = 2'000,
                         .steps = 100'000,
                         .states = 1'000,
                         .row_items = 1'000,
                         .matcher_bytes = 1 << 20,
                         .mask_steps = 200'000,
                         .cache_bytes = 1 << 20};
  try {
    const auto compiled =
        compile({.language = Language::kRegex, .text = std::string(input.substr(0, line))}, vocabulary, limits);
    Matcher matcher(compiled);
    check(matcher, *vocabulary);
    for (const char c : text) {
      if (!matcher.advance(static_cast<unsigned char>(c))) break;
      check(matcher, *vocabulary);
    }
    if (matcher.advanced() > 0) matcher.rollback(matcher.advanced());
    const std::string forced = matcher.forced(16);
    if (!matcher.failed() && !forced.empty() && !matcher.advance_text(forced) && !matcher.failed()) std::abort();
  } catch (const GrammarError&) {
  }
  return 0;
}
