#include "grammar/rows.h"

#include <algorithm>

#include "base/seeded_hash.h"

namespace ingot::grammar {
namespace {

using Kind = Grammar::Item::Kind;

uint64_t hash_of(uint64_t key) {
  SeededNumbers hash;
  hash.add(key);
  return hash.value();
}

}  // namespace

Rows::Rows(const Grammar& grammar, Lexer& lexer, const Limits& limits)
    : grammar_(grammar), lexer_(lexer), limits_(limits), table_(64) {
  const uint32_t prediction = predict({grammar.start()});
  rows_.push_back({0, 0, prediction, predictions_[prediction].start, grammar.rules()[grammar.start()].nullable});
}

void Rows::charge(size_t bytes) {
  memory_ += bytes;
  if (memory_ > limits_.matcher_bytes) {
    throw LimitError("[grammar] the parser has used {} MiB for one answer", limits_.matcher_bytes >> 20);
  }
}

template <class F>
void Rows::each_waiting(RowId row, uint64_t symbol, F f) const {
  const Row& of = rows_[row];
  const auto items = std::span(items_).subspan(of.first, of.count);
  const auto by_dot = [&](uint32_t dot) { return awaited(dot); };
  for (const Item& item : std::ranges::equal_range(items, symbol, {}, [&](const Item& i) { return awaited(i.dot); })) {
    f(item);
  }
  for (const uint32_t dot : std::ranges::equal_range(predictions_[of.prediction].dots, symbol, {}, by_dot)) {
    f(Item{dot, row});
  }
}

// Whether completing `at` does no more than complete one other rule: then only that counts. The start's own completion
// counts for itself.
bool Rows::only_caller(Completed at, Completed& caller) const {
  if (at.rule == grammar_.start() && at.from == kFirst) return false;
  int count = 0;
  bool is_last = false;
  each_waiting(at.from, at.rule, [&](const Item& item) {
    const Grammar::Item& next = grammar_.items()[item.dot + 1];
    count++;
    is_last = next.kind == Kind::kEnd;
    caller = {next.id, item.from};
  });
  return count == 1 && is_last;
}

Rows::Completed Rows::topmost(Completed at) {
  const auto key = [](Completed c) { return uint64_t{c.rule} << 32 | c.from; };
  std::vector<Completed> path;
  for (Completed caller{}; only_caller(at, caller); at = caller) {
    if (const auto it = topmost_.find(key(at)); it != topmost_.end()) {
      at = it->second;
      break;
    }
    path.push_back(at);
    if (path.size() > limits_.row_items) throw LimitError("[grammar] rules complete each other without end");
  }
  charge(path.size() * 48);
  for (const Completed& passed : path) topmost_.emplace(key(passed), at);
  return at;
}

void Rows::add(Item item) {
  if (made_.size() * 2 >= table_.size()) {
    table_.assign(table_.size() * 2, 0);
    for (uint32_t i = 0; i < made_.size(); i++) {
      size_t at = hash_of(made_[i].key()) & (table_.size() - 1);
      while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
      table_[at] = i + 1;
    }
  }
  size_t at = hash_of(item.key()) & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    if (made_[table_[at] - 1] == item) return;
  }
  if (made_.size() >= limits_.row_items) {
    throw LimitError("[grammar] the parser has more than {} items at one place", limits_.row_items);
  }
  made_.push_back(item);
  table_[at] = static_cast<uint32_t>(made_.size());
}

void Rows::scan(const Taken& taken) {
  for (const LexemeId lexeme : lexer_.accepted(taken.accepts)) {
    each_waiting(taken.row, uint64_t{1} << 32 | lexeme, [&](const Item& item) { add({item.dot + 1, item.from}); });
  }
}

// Completes and skips until nothing is new. `made_` grows while it is walked.
void Rows::close() {
  for (size_t i = 0; i < made_.size(); i++) {
    const Item item = made_[i];
    const Grammar::Item& next = grammar_.items()[item.dot];
    if (next.kind == Kind::kRule && grammar_.rules()[next.id].nullable) {
      add({item.dot + 1, item.from});
    } else if (next.kind == Kind::kEnd) {
      const Completed top = topmost({next.id, item.from});
      made_may_end_ |= top.rule == grammar_.start() && top.from == kFirst;
      each_waiting(top.from, top.rule, [&](const Item& waiting) { add({waiting.dot + 1, waiting.from}); });
    }
  }
}

RowId Rows::after(RowId row, uint32_t accepts) {
  const uint64_t key = uint64_t{row} << 32 | accepts;
  if (const auto it = after_.find(key); it != after_.end()) return it->second;
  const Taken taken = {row, accepts};
  const RowId made = after(std::span(&taken, 1));
  charge(48);
  after_.emplace(key, made);
  return made;
}

RowId Rows::after(std::span<const Taken> taken) {
  made_.clear();
  made_may_end_ = false;
  std::ranges::fill(table_, 0);
  for (const Taken& one : taken) scan(one);
  close();
  return find_or_make();
}

RowId Rows::find_or_make() {
  std::erase_if(made_, [&](const Item& item) { return grammar_.items()[item.dot].kind == Kind::kEnd; });
  std::ranges::sort(made_, [&](const Item& a, const Item& b) {
    const uint64_t x = awaited(a.dot), y = awaited(b.dot);
    return x != y ? x < y : a.dot != b.dot ? a.dot < b.dot : a.from < b.from;
  });
  SeededNumbers numbers;
  numbers.add(made_may_end_ ? 1 : 2);
  for (const Item& item : made_) numbers.add(item.key());
  const uint64_t hash = numbers.value();
  const auto [from, to] = by_items_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    const Row& known = rows_[it->second];
    if (known.may_end == made_may_end_ &&
        std::ranges::equal(made_, std::span(items_).subspan(known.first, known.count)))
      return it->second;
  }
  Row row = {static_cast<uint32_t>(items_.size()), static_cast<uint32_t>(made_.size()), 0, kDead, made_may_end_};
  std::vector<RuleId> seeds;
  std::vector<LexemeId> lexemes;
  for (const Item& item : made_) {
    const Grammar::Item& next = grammar_.items()[item.dot];
    (next.kind == Kind::kRule ? seeds : lexemes).push_back(next.id);
  }
  row.prediction = predict(std::move(seeds));
  const Prediction& prediction = predictions_[row.prediction];
  if (lexemes.empty()) {
    row.start = prediction.start;
  } else {
    lexemes.insert(lexemes.end(), prediction.lexemes.begin(), prediction.lexemes.end());
    std::ranges::sort(lexemes);
    lexemes.erase(std::unique(lexemes.begin(), lexemes.end()), lexemes.end());
    row.start = lexer_.start(lexemes);
  }
  charge(made_.size() * sizeof(Item) + sizeof(Row) + 64);
  items_.insert(items_.end(), made_.begin(), made_.end());
  const auto id = static_cast<RowId>(rows_.size());
  rows_.push_back(row);
  by_items_.emplace(hash, id);
  return id;
}

// All dots that may stand at the place where the rules `seeds` begin, after what derives nothing.
uint32_t Rows::predict(std::vector<RuleId> seeds) {
  seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
  if (const auto it = prediction_of_.find(seeds); it != prediction_of_.end()) return it->second;
  Prediction made;
  std::vector<bool> seen(grammar_.rules().size());
  std::vector<RuleId> rules;
  const auto meet = [&](RuleId rule) {
    if (!seen[rule]) rules.push_back(rule);
    seen[rule] = true;
  };
  for (const RuleId seed : seeds) meet(seed);
  for (size_t i = 0; i < rules.size(); i++) {
    for (uint32_t dot : grammar_.rules()[rules[i]].starts) {
      for (bool skips = true; skips && grammar_.items()[dot].kind != Kind::kEnd; dot++) {
        const Grammar::Item& next = grammar_.items()[dot];
        made.dots.push_back(dot);
        if (next.kind == Kind::kRule) meet(next.id);
        if (next.kind == Kind::kLexeme) made.lexemes.push_back(next.id);
        skips = next.kind == Kind::kRule && grammar_.rules()[next.id].nullable;
      }
    }
    if (made.dots.size() > limits_.row_items) {
      throw LimitError("[grammar] the parser has more than {} items at one place", limits_.row_items);
    }
  }
  std::ranges::sort(made.dots, {}, [&](uint32_t dot) { return std::pair(awaited(dot), dot); });
  std::ranges::sort(made.lexemes);
  made.lexemes.erase(std::unique(made.lexemes.begin(), made.lexemes.end()), made.lexemes.end());
  made.start = lexer_.start(made.lexemes);
  charge((made.dots.size() + made.lexemes.size() + seeds.size()) * 4 + sizeof(Prediction) + 64);
  const auto id = static_cast<uint32_t>(predictions_.size());
  predictions_.push_back(std::move(made));
  prediction_of_.emplace(std::move(seeds), id);
  return id;
}

}  // namespace ingot::grammar
