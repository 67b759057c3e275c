// What the targets of the languages of grammars share: a source is refused with a message or makes a matcher that
// always has a next token, until it ends or a limit stops it with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

inline std::shared_ptr<const Vocabulary> fuzz_vocabulary() {
  std::vector<Vocabulary::Token> tokens;
  for (int byte = 0; byte < 256; byte++) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  for (const char* text : {"{\"", "\":", "\",", "\"}", "]", "true", "null", "12", "ab", "<f", " \"", "\n  "}) {
    tokens.push_back({text, false});
  }
  tokens.push_back({"<end>", true});
  const int32_t end = static_cast<int32_t>(tokens.size()) - 1;
  return std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
}

inline void fuzz_source(const Source& source) {
  constexpr size_t kSource = 4096;
  constexpr int kTokens = 24;
  static const std::shared_ptr<const Vocabulary> vocabulary = fuzz_vocabulary();
  const size_t size = source.text.size();
  if (size > kSource) return;
  const Limits limits = {.depth = 64,
                         .nodes = 20'000,
                         .items = 10'000,
                         .steps = 100'000,
                         .states = 1'000,
                         .row_items = 2'000,
                         .matcher_bytes = 1 << 20,
                         .mask_steps = 200'000,
                         .cache_bytes = 1 << 20};
  try {
    Matcher matcher(compile(source, vocabulary, limits));
    std::vector<uint32_t> words(vocabulary->words());
    uint32_t random = static_cast<uint32_t>(size) * 2654435761u + 1;
    for (int i = 0; i < kTokens && !matcher.complete(); i++) {
      if (!matcher.mask(words)) {
        if (!matcher.failed() || matcher.failure() == Matcher::kDeadEnd) std::abort();
        return;
      }
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token < vocabulary->size(); token++) {
        if ((words[static_cast<size_t>(token) / 32] >> (token & 31) & 1) != 0) allowed.push_back(token);
      }
      if (allowed.empty()) std::abort();
      random = random * 1664525u + 1013904223u;
      if (!matcher.advance(allowed[random % allowed.size()]) && !matcher.failed()) std::abort();
      if (matcher.failed()) return;
    }
  } catch (const GrammarError&) {
  }
}

inline void fuzz_language(Language language, const uint8_t* data, size_t size, bool strict = false) {
  fuzz_source({.language = language, .text = {reinterpret_cast<const char*>(data), size}, .strict = strict});
}

}  // namespace ingot::grammar
