// A context-free grammar whose terminals ("lexemes") are regular expressions over bytes. Its language is exact: where a
// lexeme could end or go on, both are followed; no longest match is preferred.
//
// GrammarBuilder makes it: front ends call lexeme(), rule(), add() and the helpers, then build().
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/limits.h"
#include "grammar/regex/regex.h"

namespace ingot::grammar {

class Vocabulary;

using Symbol = uint32_t;  // a lexeme or a rule of the builder
using LexemeId = uint32_t;
using RuleId = uint32_t;

// Immutable. Rules that can derive no text at all, and those that nothing uses, are gone; if the start is among them
// build() throws. No lexeme matches the empty string.
class Grammar {
 public:
  // Right sides lie one after the other, each ended by kEnd of its rule; a position in them is a parser's dot.
  struct Item {
    enum class Kind : uint8_t { kLexeme, kRule, kEnd } kind = Kind::kEnd;
    uint32_t id = 0;  // lexeme, rule, or the rule that ends here
  };
  struct Rule {
    std::vector<uint32_t> starts;  // dots at the beginning of each right side
    bool nullable = false;
    std::string name;
  };

  const std::vector<Item>& items() const { return items_; }
  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<Expr>& lexemes() const { return lexemes_; }
  // Of each lexeme: it is one of those that every grammar of JSON has (GrammarBuilder::mark_common).
  const std::vector<bool>& common() const { return common_; }
  RuleId start() const { return start_; }
  // The expressions of the lexemes; the lexer derives in a pool of its own made from this one.
  const Regexes& regexes() const { return *regexes_; }
  size_t memory() const;
  // Names of parts that are held to less than was asked for, as the source allows.
  const std::vector<std::string>& relaxed() const { return relaxed_; }

 private:
  friend class GrammarBuilder;
  std::vector<std::string> relaxed_;
  std::vector<Item> items_;
  std::vector<Rule> rules_;
  std::vector<Expr> lexemes_;
  std::vector<bool> common_;
  RuleId start_ = 0;
  std::shared_ptr<Regexes> regexes_;
};

class GrammarBuilder {
 public:
  explicit GrammarBuilder(const Limits& limits = {});

  Regexes& regexes() { return *regexes_; }
  const Limits& limits() const { return limits_; }

  // A terminal. The same expression gives the same symbol. One that matches the empty string may be left out; one that
  // matches nothing makes every right side that has it vanish.
  Symbol lexeme(Expr expr);
  Symbol text(std::string_view literal) { return lexeme(regexes_->literal(literal)); }
  // This lexeme tells nothing of what was asked for: masks of it may be shared by all who have a grammar.
  void mark_common(Symbol lexeme);
  // One of the vocabulary's special tokens, which no expression over text matches: see Vocabulary::special_token().
  // Throws GrammarError at `place` for a token that ends answers: nothing could match it, and nothing come after it.
  Symbol special_token(const Vocabulary& vocabulary, int32_t token, const std::string& place = {});

  // A rule without right sides yet, so that others, and itself, may use it.
  Symbol rule(std::string name = {});
  // One more right side; none at all: the empty text. REQUIRES: `rule` comes from rule(). Throws LimitError.
  void add(Symbol rule, std::span<const Symbol> right);
  void add(Symbol rule, std::initializer_list<Symbol> right) { add(rule, std::span(right.begin(), right.size())); }

  // Helpers: each is a rule made of the above (or a given symbol itself, where that is the same).
  Symbol empty();    // the empty text
  Symbol nothing();  // no text: right sides that have it vanish
  Symbol sequence(std::span<const Symbol> parts);
  Symbol sequence(std::initializer_list<Symbol> parts) { return sequence(std::span(parts.begin(), parts.size())); }
  Symbol choice(std::span<const Symbol> parts);
  Symbol choice(std::initializer_list<Symbol> parts) { return choice(std::span(parts.begin(), parts.size())); }
  Symbol optional(Symbol part);
  // At least `min`, at most `max` (kUnbounded: any number) of `part`, with `separator` between two (none: pass
  // empty()). About max rules where it is bounded: a limit for rules, while Regexes::repeat has none.
  Symbol repeat(Symbol part, uint32_t min, uint32_t max) { return separated(part, empty(), min, max); }
  Symbol separated(Symbol part, Symbol separator, uint32_t min, uint32_t max);

  // Whether `symbol` can derive any text, as far as rules are given by now. Throws LimitError.
  bool is_productive(Symbol symbol) const;

  // What lexemes are made of from now on, in place of the expressions that are given; none: those. For a grammar whose
  // texts are part of another's, as between the quotes of a JSON string.
  void spell(std::function<Expr(Expr)> spelled) { spelled_ = std::move(spelled); }
  bool spells() const { return spelled_ != nullptr; }

  // Grammar::relaxed().
  void relax(const std::string& name);

  // Ends building: the builder is spent. Throws GrammarError where the start derives no text.
  std::shared_ptr<const Grammar> build(Symbol start);

 private:
  struct Production {
    Symbol rule;
    uint32_t first, count;  // in right_
  };
  static constexpr Symbol kRuleBit = Symbol{1} << 31;
  static bool is_rule(Symbol symbol) { return (symbol & kRuleBit) != 0; }
  void check_symbol(Symbol symbol) const;
  Symbol own_lexeme(Expr expr);
  std::vector<bool> productive_lexemes() const;
  std::vector<bool> rules_over(const std::vector<bool>& lexeme_ok) const;
  bool lexeme_is_productive(LexemeId id) const;

  Limits limits_;
  std::shared_ptr<Regexes> regexes_;
  std::vector<Expr> lexemes_;
  std::vector<bool> common_;  // of each lexeme
  std::unordered_map<Expr, Symbol> lexeme_of_;
  std::vector<std::string> rule_names_;
  std::vector<Production> productions_;
  std::vector<Symbol> right_;
  Symbol empty_ = 0, nothing_ = 0;
  std::vector<std::string> relaxed_;
  std::function<Expr(Expr)> spelled_;
};

}  // namespace ingot::grammar
