// Whether a grammar derives a text, by the plainest way: Earley's, byte by byte, without a vocabulary, a lexer's states
// or masks. For tests of front ends, and beside the real matcher.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace ingot::grammar {

class PlainMatcher {
 public:
  explicit PlainMatcher(std::shared_ptr<const Grammar> grammar)
      : grammar_(std::move(grammar)), pool_(grammar_->regexes()) {
    pool_.set_max_nodes(size_t{1} << 24);
    pool_.limit_searches(SIZE_MAX);  // what compiling has searched is not its own
  }

  bool accepts(std::string_view text) {
    begin();
    return follow(text) && may_end();
  }

  // A text that is followed piece by piece: from the empty one on.
  void begin() {
    rows_.assign(1, {});
    threads_.clear();
    for (const uint32_t dot : grammar_->rules()[grammar_->start()].starts) rows_[0].insert({dot, 0});
    close(0, threads_);
  }
  // False, and nothing changed, where no text of the grammar goes on so.
  bool follow(std::string_view bytes) {
    const size_t rows = rows_.size();
    std::set<Thread> threads = threads_;
    for (const char byte : bytes) {
      threads = step(threads, static_cast<uint8_t>(byte));
      if (!threads.empty() || !rows_.back().empty()) continue;
      rows_.resize(rows);
      return false;
    }
    if (threads.empty() && !may_end()) {
      rows_.resize(rows);
      return false;
    }
    threads_ = std::move(threads);
    return true;
  }
  // Whether follow() would be true.
  bool goes_on(std::string_view bytes) {
    const size_t rows = rows_.size();
    const std::set<Thread> before = threads_;
    if (!follow(bytes)) return false;
    rows_.resize(rows);
    threads_ = before;
    return true;
  }
  bool may_end() const {
    for (const auto& [dot, origin] : rows_.back()) {
      const Grammar::Item item = grammar_->items()[dot];
      if (origin == 0 && item.kind == Grammar::Item::Kind::kEnd && item.id == grammar_->start()) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kSearch = 20'000;
  using Dotted = std::pair<uint32_t, size_t>;         // place in the right sides, row where it began
  using Thread = std::tuple<Expr, uint32_t, size_t>;  // rest of a lexeme, and whose it is

  // Nothing can follow, as far as that is found: where it is not, the lexeme goes on, and no text ends with it.
  bool is_dead(Expr rest) {
    if (!pool_.may_hide_nothing(rest)) return false;
    const auto [known, is_new] = dead_.try_emplace(rest, false);
    if (!is_new) return known->second;
    try {
      known->second = pool_.is_empty(rest, kSearch);
    } catch (const LimitError&) {  // the search is too long
    }
    return known->second;
  }

  // One byte: lexemes go on, and what follows them begins.
  std::set<Thread> step(const std::set<Thread>& threads, uint8_t byte) {
    rows_.emplace_back();
    std::set<Thread> next;
    for (const auto& [expr, dot, origin] : threads) {
      const Expr rest = pool_.derivative(expr, byte);
      if (rest == kNothing || is_dead(rest)) continue;
      next.insert({rest, dot, origin});
      if (pool_.nullable(rest)) rows_.back().insert({dot + 1, origin});
    }
    close(rows_.size() - 1, next);
    return next;
  }

  // Predicts and completes row `at`, and starts the lexemes that it asks for.
  void close(size_t at, std::set<Thread>& threads) {
    std::vector<Dotted> waiting(rows_[at].begin(), rows_[at].end());
    const auto add = [&](uint32_t dot, size_t origin) {
      if (rows_[at].insert({dot, origin}).second) waiting.push_back({dot, origin});
    };
    while (!waiting.empty()) {
      const auto [dot, origin] = waiting.back();
      waiting.pop_back();
      const Grammar::Item item = grammar_->items()[dot];
      if (item.kind == Grammar::Item::Kind::kLexeme) {
        threads.insert({grammar_->lexemes()[item.id], dot, origin});
      } else if (item.kind == Grammar::Item::Kind::kRule) {
        for (const uint32_t start : grammar_->rules()[item.id].starts) add(start, at);
        if (grammar_->rules()[item.id].nullable) add(dot + 1, origin);
      } else {
        const std::vector<Dotted> parents(rows_[origin].begin(), rows_[origin].end());
        for (const auto& [parent, parent_origin] : parents) {
          const Grammar::Item wanted = grammar_->items()[parent];
          if (wanted.kind == Grammar::Item::Kind::kRule && wanted.id == item.id) add(parent + 1, parent_origin);
        }
      }
    }
  }

  std::shared_ptr<const Grammar> grammar_;
  Regexes pool_;
  std::map<Expr, bool> dead_;
  std::vector<std::set<Dotted>> rows_;
  std::set<Thread> threads_;
};

}  // namespace ingot::grammar
