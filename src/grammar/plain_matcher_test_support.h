// Whether a grammar derives a text, by the plainest way: Earley's, byte by byte, without a vocabulary. For tests of
// front ends, and beside the real matcher.
#pragma once

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
  }

  bool accepts(std::string_view text) {
    rows_.assign(1, {});
    std::set<Thread> threads;
    for (const uint32_t dot : grammar_->rules()[grammar_->start()].starts) rows_[0].insert({dot, 0});
    close(0, threads);
    for (size_t at = 0; at < text.size(); at++) {
      rows_.emplace_back();
      std::set<Thread> next;
      for (const auto& [expr, dot, origin] : threads) {
        const Expr rest = pool_.derivative(expr, static_cast<uint8_t>(text[at]));
        if (rest == kNothing) continue;
        next.insert({rest, dot, origin});
        if (pool_.nullable(rest)) rows_.back().insert({dot + 1, origin});
      }
      threads = std::move(next);
      close(at + 1, threads);
      if (threads.empty() && rows_.back().empty()) return false;
    }
    for (const auto& [dot, origin] : rows_.back()) {
      const Grammar::Item item = grammar_->items()[dot];
      if (origin == 0 && item.kind == Grammar::Item::Kind::kEnd && item.id == grammar_->start()) return true;
    }
    return false;
  }

 private:
  using Dotted = std::pair<uint32_t, size_t>;         // place in the right sides, row where it began
  using Thread = std::tuple<Expr, uint32_t, size_t>;  // rest of a lexeme, and whose it is

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
  std::vector<std::set<Dotted>> rows_;
};

}  // namespace ingot::grammar
