#include "grammar/rules/ebnf.h"

#include <algorithm>

namespace ingot::grammar {

EbnfId Ebnf::add(Node node) {
  const Limits& limits = builder_.limits();
  if (limits.meter) limits.meter->spend(1 + node.parts.size());
  for (const EbnfId part : node.parts) {
    node.depth = std::max(node.depth, nodes_[static_cast<size_t>(part)].depth + 1);
  }
  // What follows recurses on it.
  if (static_cast<size_t>(node.depth) > 4 * limits.depth) throw LimitError("[grammar] nested too deeply");
  if (nodes_.size() >= limits.items) throw LimitError("[grammar] more than {} parts of rules", limits.items);
  nodes_.push_back(std::move(node));
  return static_cast<EbnfId>(nodes_.size()) - 1;
}

int32_t Ebnf::rule_of(std::string_view name) {
  const auto [it, is_new] = rule_by_name_.try_emplace(std::string(name), static_cast<int32_t>(rules_.size()));
  if (is_new) rules_.push_back({.name = std::string(name), .first_use = {}});
  return it->second;
}

EbnfId Ebnf::reference(std::string_view rule, std::string place) {
  const int32_t index = rule_of(rule);
  Rule& known = rules_[static_cast<size_t>(index)];
  if (known.first_use.empty()) known.first_use = std::move(place);
  return add({.kind = Kind::kRule, .rule = index});
}

EbnfId Ebnf::sequence(std::vector<EbnfId> parts) {
  if (parts.size() == 1) return parts[0];
  return parts.empty() ? expr(kEmpty) : add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

EbnfId Ebnf::choice(std::vector<EbnfId> parts) {
  if (parts.size() == 1) return parts[0];
  return parts.empty() ? expr(kNothing) : add({.kind = Kind::kChoice, .parts = std::move(parts)});
}

EbnfId Ebnf::repeat(EbnfId part, uint32_t min, uint32_t max) {
  return add({.kind = Kind::kRepeat, .parts = {part}, .min = min, .max = max});
}

void Ebnf::define(std::string_view rule, EbnfId body, const std::string& place) {
  Rule& known = rules_[static_cast<size_t>(rule_of(rule))];
  if (known.body >= 0) throw GrammarError(place, "[grammar] the rule \"{}\" is defined twice", rule);
  known.body = body;
}

void Ebnf::references(EbnfId part, std::vector<int32_t>& out) const {
  const Node& node = nodes_[static_cast<size_t>(part)];
  if (node.kind == Kind::kRule) out.push_back(node.rule);
  for (const EbnfId below : node.parts) references(below, out);
}

bool Ebnf::has_symbols(EbnfId part) const {
  const Node& node = nodes_[static_cast<size_t>(part)];
  return node.kind == Kind::kSymbol ||
         std::any_of(node.parts.begin(), node.parts.end(), [&](EbnfId below) { return has_symbols(below); });
}

// A rule is regular when all that it refers to is: from those that refer to nothing upwards.
void Ebnf::find_regular() {
  std::vector<std::vector<int32_t>> users(rules_.size());
  std::vector<size_t> open(rules_.size());
  std::vector<int32_t> ready;
  for (size_t i = 0; i < rules_.size(); i++) {
    std::vector<int32_t> used;
    references(rules_[i].body, used);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const int32_t rule : used) users[static_cast<size_t>(rule)].push_back(static_cast<int32_t>(i));
    open[i] = used.size() + (has_symbols(rules_[i].body) ? 1 : 0);
    if (open[i] == 0) ready.push_back(static_cast<int32_t>(i));
  }
  while (!ready.empty()) {
    const int32_t index = ready.back();
    ready.pop_back();
    Rule& rule = rules_[static_cast<size_t>(index)];
    rule.expr = to_expr(rule.body);
    rule.is_regular = true;
    for (const int32_t user : users[static_cast<size_t>(index)]) {
      if (--open[static_cast<size_t>(user)] == 0) ready.push_back(user);
    }
  }
  regular_.assign(nodes_.size(), true);
  for (size_t i = 0; i < nodes_.size(); i++) {  // parts come before what is made of them
    const Node& node = nodes_[i];
    bool all =
        node.kind != Kind::kSymbol && (node.kind != Kind::kRule || rules_[static_cast<size_t>(node.rule)].is_regular);
    for (const EbnfId below : node.parts) all = all && regular_[static_cast<size_t>(below)];
    regular_[i] = all;
  }
}

// REQUIRES: the part is regular.
Expr Ebnf::to_expr(EbnfId part) {
  const Node& node = nodes_[static_cast<size_t>(part)];
  switch (node.kind) {
    case Kind::kExpr:
      return node.expr;
    case Kind::kRule:
      return rules_[static_cast<size_t>(node.rule)].expr;
    case Kind::kRepeat:
      return pool_.repeat(to_expr(node.parts[0]), node.min, node.max);
    default:
      break;
  }
  std::vector<Expr> parts;
  for (const EbnfId below : node.parts) parts.push_back(to_expr(below));
  return node.kind == Kind::kSequence ? pool_.concat(parts) : pool_.any_of(parts);
}

Symbol Ebnf::rule_symbol(int32_t index) {
  Rule& rule = rules_[static_cast<size_t>(index)];
  if (!rule.has_symbol) {
    rule.has_symbol = true;
    rule.symbol = builder_.rule(rule.name);
    waiting_.push_back(index);
  }
  return rule.symbol;
}

Symbol Ebnf::to_symbol(EbnfId part) {
  const Node& node = nodes_[static_cast<size_t>(part)];
  if (is_regular(part)) return builder_.lexeme(to_expr(part));
  switch (node.kind) {
    case Kind::kSymbol:
      return node.symbol;
    case Kind::kRule:
      return rule_symbol(node.rule);
    case Kind::kRepeat:
      return builder_.repeat(to_symbol(node.parts[0]), node.min, node.max);
    default:
      break;
  }
  // Regular neighbours, or alternatives, are joined.
  const bool in_order = node.kind == Kind::kSequence;
  std::vector<Symbol> symbols;
  std::vector<Expr> run;
  const auto end_run = [&] {
    if (!run.empty()) symbols.push_back(builder_.lexeme(in_order ? pool_.concat(run) : pool_.any_of(run)));
    run.clear();
  };
  for (const EbnfId below : node.parts) {
    if (is_regular(below)) {
      run.push_back(to_expr(below));
      continue;
    }
    if (in_order) end_run();
    symbols.push_back(to_symbol(below));
  }
  end_run();
  return in_order ? builder_.sequence(symbols) : builder_.choice(symbols);
}

void Ebnf::check_bodies() const {
  for (const Rule& rule : rules_) {
    if (rule.body < 0) throw GrammarError(rule.first_use, "[grammar] there is no rule \"{}\"", rule.name);
  }
}

void Ebnf::find_expressions() {
  check_bodies();
  find_regular();
  for (const Rule& rule : rules_) {
    if (!rule.is_regular) {
      throw GrammarError(rule.first_use, "[grammar] the terminal \"{}\" refers to itself", rule.name);
    }
  }
}

Expr Ebnf::expression(std::string_view rule, const std::string& place) const {
  const auto found = rule_by_name_.find(std::string(rule));
  if (found == rule_by_name_.end()) throw GrammarError(place, "[grammar] there is no terminal \"{}\"", rule);
  return rules_[static_cast<size_t>(found->second)].expr;
}

Symbol Ebnf::build(std::string_view start, const std::string& place) {
  const auto found = rule_by_name_.find(std::string(start));
  if (found == rule_by_name_.end() || rules_[static_cast<size_t>(found->second)].body < 0) {
    throw GrammarError(place, "[grammar] there is no rule \"{}\"", start);
  }
  check_bodies();
  find_regular();
  const Rule& first = rules_[static_cast<size_t>(found->second)];
  if (first.is_regular) return builder_.lexeme(first.expr);
  const Symbol symbol = rule_symbol(found->second);
  while (!waiting_.empty()) {
    const int32_t index = waiting_.back();
    waiting_.pop_back();
    const Symbol body = to_symbol(rules_[static_cast<size_t>(index)].body);
    builder_.add(rules_[static_cast<size_t>(index)].symbol, {body});
  }
  return symbol;
}

}  // namespace ingot::grammar
