// From sets of values to the rules of a grammar over the texts that write them.
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
#include "grammar/schema/algebra.h"
#include "grammar/schema/notation.h"

namespace ingot::grammar {

class SchemaEmitter {
 public:
  // `notation` outlives it.
  SchemaEmitter(SetAlgebra& sets, GrammarBuilder& builder, Notation& notation);
  // The rule of a set, and of all that it uses. Throws GrammarError, LimitError.
  Symbol emit(SetId set);
  // The same of the objects in it, whose members are written as `members` says and those of objects within them as the
  // notation does.
  Symbol emit_objects(SetId set, Members& members);
  // A symbol whose rules emit() makes: for members to use.
  Symbol value(SetId set);

  SetAlgebra& sets() { return sets_; }

 private:
  void make_waiting();
  void scalars(const Values& values, std::vector<Symbol>& out);
  Symbol numbers(const NumberSet& set);
  Symbol texts(const TextSet& set);
  void array(Symbol rule, const ArrayShape& shape);
  void counted_array(Symbol rule, const ArrayShape& shape);
  void unique_array(Symbol rule, const ArrayShape& shape);
  bool list_values(SetId set, std::vector<std::string>& out);
  void object(Symbol rule, const ObjectShape& shape);
  void object(Symbol rule, const ObjectShape& shape, Members& members);

  SetAlgebra& sets_;
  GrammarBuilder& builder_;
  Notation& notation_;
  std::unordered_map<SetId, Symbol> known_;
  std::vector<std::pair<Symbol, SetId>> waiting_;

  friend class ObjectEmitter;
};

}  // namespace ingot::grammar
