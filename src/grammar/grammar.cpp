#include "grammar/grammar.h"

#include <algorithm>

#include "base/check.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

size_t Grammar::memory() const {
  size_t bytes = items_.capacity() * sizeof(Item) + lexemes_.capacity() * sizeof(Expr) + regexes_->memory();
  for (const Rule& rule : rules_) {
    bytes += sizeof(Rule) + rule.starts.capacity() * sizeof(uint32_t) + rule.name.capacity();
  }
  return bytes;
}

GrammarBuilder::GrammarBuilder(const Limits& limits)
    : limits_(limits), regexes_(std::make_shared<Regexes>(limits.nodes)) {
  regexes_->limit_searches(limits_.steps / 40);  // 50,000 take a second
  regexes_->set_meter(limits_.meter);
  nothing_ = rule("nothing");
  empty_ = rule("empty");
  add(empty_, {});
}

void GrammarBuilder::check_symbol(Symbol symbol) const {
  const size_t count = is_rule(symbol) ? rule_names_.size() : lexemes_.size();
  CHECK((symbol & ~kRuleBit) < count, "symbol {:#x} of {}", symbol, count);
}

Symbol GrammarBuilder::lexeme(Expr expr) {
  if (spelled_) expr = spelled_(expr);
  if (regexes_->may_match_codes(expr)) {  // a complement has the codes of special tokens in it
    expr = regexes_->all_of({expr, regexes_->star(regexes_->bytes(ByteSet::range(0, 0xFE)))});
  }
  return own_lexeme(expr);
}

Symbol GrammarBuilder::own_lexeme(Expr expr) {
  if (expr == kEmpty) return empty_;
  if (expr == kNothing) return nothing_;
  if (const auto it = lexeme_of_.find(expr); it != lexeme_of_.end()) return it->second;
  Symbol symbol = static_cast<Symbol>(lexemes_.size());
  lexemes_.push_back(expr);
  common_.push_back(false);
  if (regexes_->nullable(expr)) symbol = optional(symbol);  // a lexeme has one byte at least: the lexer sees to that
  lexeme_of_.emplace(expr, symbol);
  return symbol;
}

void GrammarBuilder::mark_common(Symbol lexeme) {
  check_symbol(lexeme);
  if (!is_rule(lexeme)) common_[lexeme] = true;
}

Symbol GrammarBuilder::special_token(const Vocabulary& vocabulary, int32_t token, const std::string& place) {
  if (vocabulary.is_end(token)) {
    throw GrammarError(place, "[grammar] a special token that ends answers cannot stand in what is answered");
  }
  return own_lexeme(regexes_->literal(special_code(token)));
}

Symbol GrammarBuilder::rule(std::string name) {
  if (rule_names_.size() >= limits_.items) throw LimitError("[grammar] more than {} rules", limits_.items);
  rule_names_.push_back(std::move(name));
  return static_cast<Symbol>(rule_names_.size() - 1) | kRuleBit;
}

void GrammarBuilder::add(Symbol rule, std::span<const Symbol> right) {
  CHECK(is_rule(rule), "{:#x}", rule);
  check_symbol(rule);
  if (limits_.meter) limits_.meter->spend(1 + right.size());
  const auto first = static_cast<uint32_t>(right_.size());
  for (const Symbol symbol : right) {
    check_symbol(symbol);
    if (symbol != empty_) right_.push_back(symbol);
  }
  productions_.push_back({rule, first, static_cast<uint32_t>(right_.size()) - first});
  if (right_.size() + productions_.size() > limits_.items) {
    throw LimitError("[grammar] more than {} symbols in the rules", limits_.items);
  }
}

Symbol GrammarBuilder::empty() { return empty_; }
Symbol GrammarBuilder::nothing() { return nothing_; }

Symbol GrammarBuilder::sequence(std::span<const Symbol> parts) {
  std::vector<Symbol> kept(parts.begin(), parts.end());
  std::erase(kept, empty_);
  if (std::ranges::find(kept, nothing_) != kept.end()) return nothing_;
  if (kept.empty()) return empty_;
  if (kept.size() == 1) return kept[0];
  const Symbol made = rule();
  add(made, kept);
  return made;
}

Symbol GrammarBuilder::choice(std::span<const Symbol> parts) {
  std::vector<Symbol> kept(parts.begin(), parts.end());
  std::erase(kept, nothing_);
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  if (kept.empty()) return nothing_;
  if (kept.size() == 1) return kept[0];
  const Symbol made = rule();
  for (const Symbol symbol : kept) add(made, {symbol});
  return made;
}

Symbol GrammarBuilder::optional(Symbol part) {
  if (part == empty_ || part == nothing_) return empty_;
  const Symbol made = rule();
  add(made, {});
  add(made, {part});
  return made;
}

Symbol GrammarBuilder::separated(Symbol part, Symbol separator, uint32_t min, uint32_t max) {
  CHECK(min <= max, "{} {}", min, max);
  if (max == 0 || part == empty_) return empty_;
  if (part == nothing_ || separator == nothing_) {
    return min == 0 && part == nothing_ ? empty_ : min <= 1 ? choice({min == 0 ? empty_ : nothing_, part}) : nothing_;
  }
  std::vector<Symbol> right;
  if (max == kUnbounded) {
    const Symbol list = rule();
    add(list, {part});
    add(list, {list, separator, part});
    if (min > limits_.items / 2) throw LimitError("[grammar] a repeat of {} rules", min);
    for (uint32_t i = 1; i < min; i++) {
      right.push_back(part);
      right.push_back(separator);
    }
    right.push_back(list);
    return min == 0 ? optional(list) : sequence(right);
  }
  if (max > limits_.items / 4) throw LimitError("[grammar] a repeat of {} rules", max);
  // What may follow k parts: nothing more, or a separator, a part and what may follow k + 1.
  Symbol rest = empty_;
  for (uint32_t k = max - 1; k >= 1; k--) {
    const Symbol here = rule();
    add(here, {separator, part, rest});
    if (k >= min) add(here, {});
    rest = here;
  }
  const Symbol all = sequence({part, rest});
  return min == 0 ? optional(all) : all;
}

void GrammarBuilder::relax(const std::string& name) {
  if (std::ranges::find(relaxed_, name) == relaxed_.end()) relaxed_.push_back(name);
}

bool GrammarBuilder::lexeme_is_productive(LexemeId id) const {
  return !regexes_->is_empty(lexemes_[id], limits_.steps / 400);
}

std::vector<bool> GrammarBuilder::productive_lexemes() const {
  std::vector<bool> productive(lexemes_.size());
  for (LexemeId id = 0; id < lexemes_.size(); id++) productive[id] = lexeme_is_productive(id);
  return productive;
}

// The rules that have a right side of such lexemes and such rules alone, found from the lexemes up: with all productive
// lexemes the productive rules, with none those that derive the empty text.
std::vector<bool> GrammarBuilder::rules_over(const std::vector<bool>& lexeme_ok) const {
  if (limits_.meter) limits_.meter->spend((right_.size() + productions_.size()) / 8);
  std::vector<bool> productive(rule_names_.size());
  std::vector<uint32_t> waits(productions_.size());
  std::vector<uint32_t> heads(rule_names_.size() + 1);
  for (const Symbol symbol : right_) {
    if (is_rule(symbol)) heads[(symbol & ~kRuleBit) + 1]++;
  }
  for (size_t i = 1; i < heads.size(); i++) heads[i] += heads[i - 1];
  std::vector<uint32_t> users(heads.back()), at = heads;  // productions by each rule that they use
  std::vector<Symbol> ready;
  const auto make_ready = [&](Symbol rule) {
    if (productive[rule & ~kRuleBit]) return;
    productive[rule & ~kRuleBit] = true;
    ready.push_back(rule);
  };
  for (uint32_t p = 0; p < productions_.size(); p++) {
    bool dead = false;
    for (uint32_t i = 0; i < productions_[p].count; i++) {
      const Symbol symbol = right_[productions_[p].first + i];
      if (is_rule(symbol)) {
        users[at[symbol & ~kRuleBit]++] = p;
        waits[p]++;
      } else {
        dead |= !lexeme_ok[symbol];
      }
    }
    if (dead) waits[p] = kUnbounded;
  }
  for (uint32_t p = 0; p < productions_.size(); p++) {
    if (waits[p] == 0) make_ready(productions_[p].rule);
  }
  while (!ready.empty()) {
    const Symbol rule = ready.back() & ~kRuleBit;
    ready.pop_back();
    for (uint32_t i = heads[rule]; i < heads[rule + 1]; i++) {
      const uint32_t p = users[i];
      if (waits[p] != kUnbounded && --waits[p] == 0) make_ready(productions_[p].rule);
    }
  }
  return productive;
}

bool GrammarBuilder::is_productive(Symbol symbol) const {
  check_symbol(symbol);
  return is_rule(symbol) ? rules_over(productive_lexemes())[symbol & ~kRuleBit] : lexeme_is_productive(symbol);
}

std::shared_ptr<const Grammar> GrammarBuilder::build(Symbol start) {
  check_symbol(start);
  if (!is_rule(start)) {
    const Symbol own = rule("start");
    add(own, {start});
    start = own;
  }
  const std::vector<bool> lexeme_ok = productive_lexemes();
  const std::vector<bool> productive = rules_over(lexeme_ok);
  const std::vector<bool> nullable = rules_over(std::vector<bool>(lexemes_.size()));
  if (!productive[start & ~kRuleBit]) throw GrammarError("", "[grammar] no text can match: nothing could be answered");
  const auto usable = [&](const Production& production) {
    return std::ranges::all_of(right_.begin() + production.first, right_.begin() + production.first + production.count,
                               [&](Symbol s) { return is_rule(s) ? productive[s & ~kRuleBit] : lexeme_ok[s]; });
  };
  std::vector<std::vector<uint32_t>> of_rule(rule_names_.size());
  for (uint32_t p = 0; p < productions_.size(); p++) {
    if (usable(productions_[p])) of_rule[productions_[p].rule & ~kRuleBit].push_back(p);
  }
  // Numbers in the order of first use; what is never used gets none.
  constexpr uint32_t kNone = kUnbounded;
  std::vector<uint32_t> rule_id(rule_names_.size(), kNone), lexeme_id(lexemes_.size(), kNone);
  std::vector<uint32_t> order = {start & ~kRuleBit};
  rule_id[order[0]] = 0;
  auto grammar = std::make_shared<Grammar>();
  for (size_t i = 0; i < order.size(); i++) {
    Grammar::Rule made;
    made.name = std::move(rule_names_[order[i]]);
    made.nullable = nullable[order[i]];
    for (const uint32_t p : of_rule[order[i]]) {
      made.starts.push_back(static_cast<uint32_t>(grammar->items_.size()));
      for (uint32_t k = 0; k < productions_[p].count; k++) {
        const Symbol symbol = right_[productions_[p].first + k];
        uint32_t& id = is_rule(symbol) ? rule_id[symbol & ~kRuleBit] : lexeme_id[symbol];
        if (id == kNone && is_rule(symbol)) {
          id = static_cast<uint32_t>(order.size());
          order.push_back(symbol & ~kRuleBit);
        } else if (id == kNone) {
          id = static_cast<uint32_t>(grammar->lexemes_.size());
          grammar->lexemes_.push_back(lexemes_[symbol]);
          grammar->common_.push_back(common_[symbol]);
        }
        grammar->items_.push_back({is_rule(symbol) ? Grammar::Item::Kind::kRule : Grammar::Item::Kind::kLexeme, id});
      }
      grammar->items_.push_back({Grammar::Item::Kind::kEnd, static_cast<uint32_t>(i)});
    }
    grammar->rules_.push_back(std::move(made));
  }
  regexes_->forget_derivatives();
  regexes_->set_meter(nullptr);
  grammar->regexes_ = std::move(regexes_);
  grammar->relaxed_ = std::move(relaxed_);
  return grammar;
}

}  // namespace ingot::grammar
