// The lexemes of JSON texts, for JSON mode and schemas alike. All grammars use the same expressions, so that masks
// inside strings and numbers are shared by all grammars of a vocabulary.
//
// White space is narrower than JSON's: none before `:` and `,`; elsewhere nothing, one blank, or one line end followed
// by at most 64 blanks or tabs, so that no model can write white space for ever.
#pragma once

#include <string_view>

#include "grammar/grammar.h"

namespace ingot::grammar {

struct JsonParts {
  explicit JsonParts(GrammarBuilder& builder);

  // Expressions.
  Expr space;           // the white space above; matches the empty text
  Expr string_char;     // one character of a JSON string as JSON writes it: itself, or an escape
  Expr string;          // "…", with the quotes
  Expr integer;         // -? digits
  Expr number;          // with fraction and exponent
  Expr unicode_escape;  // \uXXXX: a character by itself, or two halves of one
  // `text` as JSON writes it, without the quotes, in the one spelling that JSON.stringify has.
  Expr quoted(std::string_view text);
  // `space`, then `expr`: a lexeme that may stand where white space may.
  Symbol spaced(Expr expr);
  Symbol spaced(std::string_view text);

  // Lexemes, with white space in front where it is allowed.
  Symbol open_object, close_object, open_array, close_array;  // { } [ ]
  Symbol comma, colon;                                        // no white space in front
  Symbol any_string, any_number, any_key;                     // any_key: a string
  Symbol literals;                                            // true, false, null
  // Any JSON value; any object; any array: recursive rules, made on first use.
  Symbol any_value();
  Symbol any_object();
  Symbol any_array();

 private:
  void make_values();
  GrammarBuilder& builder_;
  Symbol value_ = 0, object_ = 0, array_ = 0;
  bool made_ = false;
};

}  // namespace ingot::grammar
