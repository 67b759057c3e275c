// Grammars that users write as rules (GBNF, Lark), between their text and a GrammarBuilder. Rules that no recursion
// reaches become regular expressions, and regular neighbours one lexeme: that is fast, and the language is the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace ingot::grammar {

using EbnfId = int32_t;  // a part of a rule

class Ebnf {
 public:
  explicit Ebnf(GrammarBuilder& builder) : builder_(builder), pool_(builder.regexes()) {}

  // Parts.
  EbnfId expr(Expr expr) { return add({.kind = Kind::kExpr, .expr = expr}); }
  EbnfId symbol(Symbol symbol) { return add({.kind = Kind::kSymbol, .symbol = symbol}); }
  EbnfId reference(std::string_view rule, std::string place);
  EbnfId sequence(std::vector<EbnfId> parts);
  EbnfId choice(std::vector<EbnfId> parts);
  EbnfId repeat(EbnfId part, uint32_t min, uint32_t max);

  // Throws GrammarError where the rule has a body already.
  void define(std::string_view rule, EbnfId body, const std::string& place);

  // Every rule as an expression. Throws GrammarError where one has no body or refers to itself.
  void find_expressions();
  // REQUIRES: find_expressions() was called. Throws GrammarError where there is no such rule.
  Expr expression(std::string_view rule, const std::string& place) const;

  // The rule `start`, with all that it refers to. Throws GrammarError where a rule has no body.
  Symbol build(std::string_view start, const std::string& place);

 private:
  enum class Kind : uint8_t { kExpr, kSymbol, kRule, kSequence, kChoice, kRepeat };
  struct Node {
    Kind kind;
    Expr expr = kNothing;
    Symbol symbol = 0;
    int32_t rule = 0;
    std::vector<EbnfId> parts{};
    uint32_t min = 0, max = 0;
    int32_t depth = 1;
  };
  struct Rule {
    std::string name;
    std::string first_use;  // a place
    EbnfId body = -1;
    bool is_regular = false;
    Expr expr = kNothing;
    Symbol symbol = 0;
    bool has_symbol = false;
  };
  EbnfId add(Node node);
  int32_t rule_of(std::string_view name);
  void references(EbnfId part, std::vector<int32_t>& out) const;
  bool has_symbols(EbnfId part) const;
  void check_bodies() const;
  void find_regular();
  bool is_regular(EbnfId part) const { return regular_[static_cast<size_t>(part)]; }
  Expr to_expr(EbnfId part);
  Symbol to_symbol(EbnfId part);
  Symbol rule_symbol(int32_t rule);

  GrammarBuilder& builder_;
  Regexes& pool_;
  std::vector<Node> nodes_;
  std::vector<bool> regular_;  // of nodes_, once find_regular() was called
  std::vector<Rule> rules_;
  std::map<std::string, int32_t> rule_by_name_;  // sorted: names are a client's, and may be made to collide
  std::vector<int32_t> waiting_;
};

}  // namespace ingot::grammar
