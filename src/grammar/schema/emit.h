// From sets of values to the rules of a grammar over JSON texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_parts.h"
#include "grammar/schema/algebra.h"

namespace ingot::grammar {

// An expression over characters as JSON spells them in a string, without the quotes: each character as itself, but for
// the quote and the backslash (\" and \\) and control characters (the short escape, or \u00XX).
class JsonSpelling {
 public:
  explicit JsonSpelling(Regexes& pool);
  Expr spelled(Expr text);

 private:
  Expr of_bytes(const ByteSet& set);
  Expr from_parts(Expr text, bool in_all);
  Regexes& pool_;
  Expr any_spelled_;
  std::unordered_map<Expr, Expr> known_;
};

class SchemaEmitter {
 public:
  SchemaEmitter(SetAlgebra& sets, GrammarBuilder& builder);
  // The rule of a set, and of all that it uses. Throws GrammarError, LimitError.
  Symbol emit(SetId set);

  JsonParts& parts() { return parts_; }

 private:
  Symbol value(SetId set);
  void scalars(const Values& values, std::vector<Symbol>& out);
  Symbol numbers(const NumberSet& set);
  Symbol texts(const TextSet& set);
  void array(Symbol rule, const ArrayShape& shape);
  void counted_array(Symbol rule, const ArrayShape& shape);
  void unique_array(Symbol rule, const ArrayShape& shape);
  bool list_values(SetId set, std::vector<std::string>& out);
  void object(Symbol rule, const ObjectShape& shape);

  SetAlgebra& sets_;
  GrammarBuilder& builder_;
  JsonParts parts_;
  JsonSpelling spelling_;
  std::unordered_map<SetId, Symbol> known_;
  std::vector<std::pair<Symbol, SetId>> waiting_;

  friend class ObjectEmitter;
};

}  // namespace ingot::grammar
