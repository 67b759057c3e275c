// The texts of a form of calls as symbols of a grammar: names of special tokens among them are those tokens, and white
// space is any, or none, within a bound.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

// A part of a form's text: one special token, or text.
struct MarkPart {
  std::string_view text;
  int32_t token = -1;  // -1: text
};

// <…> and […] that name special tokens, and what stands between them.
std::vector<MarkPart> mark_parts(const Vocabulary& vocabulary, std::string_view text);

class Marks {
 public:
  Marks(GrammarBuilder& builder, const Vocabulary& vocabulary);

  Expr space() const { return space_; }
  // The text in the grammar; empty() where there is none.
  Symbol symbol(std::string_view text);
  // The text before `then` and after `first`, as one lexeme where no special token is among it.
  Symbol around(Expr first, std::string_view text, Expr then);
  // A text that may be anything in which `end` does not stand; where `end` begins with a special token, anything at
  // all.
  Expr any_but(std::string_view end);
  // The same for parts of a text: what has not even the first byte of `end`.
  Expr no_begin_of(std::string_view end);

 private:
  Expr literal(std::string_view text);

  GrammarBuilder& builder_;
  const Vocabulary& vocabulary_;
  const Expr space_, any_text_;
};

}  // namespace ingot::grammar
