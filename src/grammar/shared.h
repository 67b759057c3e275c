// What the matchers of one grammar share: see compile.h.
#pragma once

#include "grammar/compile.h"
#include "grammar/lexer.h"
#include "grammar/mask_cache.h"
#include "grammar/rows.h"

namespace ingot::grammar {

struct Compiled::Shared {
  Lexer lexer;
  MaskCache masks;

  Shared(const Grammar& grammar, const Vocabulary& vocabulary, const Limits& limits)
      : lexer(grammar, limits), masks(vocabulary, lexer, limits) {}
};

}  // namespace ingot::grammar
