// Values as literals of Python, or with texts between marks and bare keys: the arguments of LFM2's and Gemma 4's calls.
#pragma once

#include <optional>
#include <string>

#include "grammar/calls/marks.h"
#include "grammar/schema/notation.h"

namespace ingot::grammar {

class LiteralNotation : public Notation {
 public:
  // Without `quote` literals of Python.
  LiteralNotation(GrammarBuilder& builder, Marks& marks, std::string_view quote, bool sorted = false);

  bool sorted() const override { return sorted_; }
  Symbol open() override { return parts_.open_object; }
  Symbol close() override { return parts_.close_object; }
  Symbol key(bool later, std::string_view name) override;
  Symbol keys(bool later, Expr names, bool all) override;
  Symbol text_value(const std::function<Symbol()>& make) override;
  Symbol open_array() override { return parts_.open_array; }
  Symbol close_array() override { return parts_.close_array; }
  Symbol comma() override { return parts_.comma; }
  Symbol words(bool null, bool yes, bool no) override;
  Symbol any_number() override { return parts_.any_number; }
  Symbol integer() override { return parts_.spaced(parts_.integer); }
  Symbol number(Expr decimals) override { return parts_.spaced(decimals); }
  Symbol any_text() override;
  Symbol text(Expr characters) override;
  Symbol text_of_length(uint32_t min, uint32_t max) override;
  Symbol constant(const std::string& json) override;
  Symbol any_value() override;
  Symbol any_object() override;
  Symbol any_array() override;

  // A key of the call itself: key= or key:.
  Symbol outer_key(bool later, Expr names);
  // Names that can be written bare.
  Expr bare_names();

 private:
  Expr before(bool later);
  Symbol marked(Expr text);
  Symbol quoted(Expr in_double, Expr in_single);
  void make_values();

  GrammarBuilder& builder_;
  Regexes& pool_;
  Marks& marks_;
  const std::string_view quote_;
  const bool sorted_;
  JsonParts parts_;
  Spelling double_, single_;
  Expr double_char_ = 0, single_char_ = 0;
  bool made_ = false;
  Symbol value_ = 0, object_ = 0, array_ = 0;
};

// The arguments of a call in this notation, without what opens and closes them.
class OuterLiterals : public Members {
 public:
  OuterLiterals(GrammarBuilder& builder, LiteralNotation& notation) : builder_(builder), notation_(notation) {}
  bool sorted() const override { return notation_.sorted(); }
  Symbol open() override { return builder_.empty(); }
  Symbol close() override { return builder_.empty(); }
  Symbol key(bool later, std::string_view name) override {
    return notation_.outer_key(later, builder_.regexes().literal(name));
  }
  Symbol keys(bool later, Expr names, bool) override { return notation_.outer_key(later, names); }
  Symbol text_value(const std::function<Symbol()>& make) override { return notation_.text_value(make); }

 private:
  GrammarBuilder& builder_;
  LiteralNotation& notation_;
};

}  // namespace ingot::grammar
