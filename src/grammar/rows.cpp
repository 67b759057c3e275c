#include "grammar/rows.h"

#include <algorithm>
#include <bit>

#include "base/seeded_hash.h"

namespace ingot::grammar {
namespace {

using Kind = Grammar::Item::Kind;

// A step is an item that is added, some nanoseconds; a look for those of a large row that wait for a symbol takes as
// long as some.
constexpr size_t kLookSteps = 8;
constexpr size_t kBringsBack = 50;  // masks, or tokens, until all is there again

size_t sort_steps(size_t n) { return n * static_cast<size_t>(std::bit_width(n)); }

uint64_t hash_of(uint64_t key) {
  SeededNumbers hash;
  hash.add(key);
  return hash.value();
}

}  // namespace

Rows::Rows(const Grammar& grammar, Lexer& lexer, const Limits& limits)
    : grammar_(grammar),
      lexer_(lexer),
      limits_(limits),
      left_{limits.mask_row_steps, limits.token_row_steps, limits.token_row_steps},
      table_(64) {
  const uint32_t prediction = predict({grammar.start()});
  rows_.push_back({0, 0, prediction, predictions_[prediction].start, grammar.rules()[grammar.start()].nullable});
}

void Rows::charge(size_t bytes) {
  memory_ += bytes;
  if (memory_ > limits_.matcher_bytes) {
    throw LimitError("[grammar] the parser has used {} MiB for one answer", limits_.matcher_bytes >> 20);
  }
}

void Rows::begin(For what, size_t brings) {
  for_ = what;
  size_t& left = left_[static_cast<size_t>(what)];
  left = std::min(allowance(), left + allowance() / kBringsBack * brings / 64);
}

void Rows::spend(size_t steps) {
  size_t& left = left_[static_cast<size_t>(for_)];
  if (steps > left) {
    throw StepsError("[grammar] the parser has used up its {} steps: the text can be read, or go on, in too many ways",
                     allowance());
  }
  left -= steps;
  steps_ += steps;
}

Rows::Waiting Rows::waiting(RowId row, uint64_t symbol) {
  spend(kLookSteps);
  const Row& of = rows_[row];
  const auto items = std::span<const Item>(items_).subspan(of.first, of.count);
  const std::span<const uint32_t> dots = predictions_[of.prediction].dots;
  const auto by_item = [&](const Item& item) { return awaited(item.dot); };
  const auto by_dot = [&](uint32_t dot) { return awaited(dot); };
  return {std::ranges::equal_range(items, symbol, {}, by_item), std::ranges::equal_range(dots, symbol, {}, by_dot)};
}

// What waits in a row for this symbol has it.
void Rows::add_after(RowId row, uint64_t symbol) {
  const Waiting all = waiting(row, symbol);
  spend(all.size());
  for (const Item& item : all.items) add({item.dot + 1, item.from});
  for (const uint32_t dot : all.dots) add({dot + 1, row});
}

// Whether completing `at` does no more than complete one other rule: then only that counts. The start's own completion
// counts for itself.
bool Rows::only_caller(Completed at, Completed& caller) {
  if (at.rule == grammar_.start() && at.from == kFirst) return false;
  const Waiting all = waiting(at.from, at.rule);
  if (all.size() != 1) return false;
  const Item item = all.dots.empty() ? all.items[0] : Item{all.dots[0], at.from};
  const Grammar::Item& next = grammar_.items()[item.dot + 1];
  caller = {next.id, item.from};
  return next.kind == Kind::kEnd;
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
  for (const LexemeId lexeme : lexer_.accepted(taken.accepts)) add_after(taken.row, uint64_t{1} << 32 | lexeme);
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
      add_after(top.from, top.rule);
    }
  }
}

RowId Rows::after(RowId row, uint32_t accepts) {
  spend(kLookSteps);
  const uint64_t key = uint64_t{row} << 32 | accepts;
  if (const auto it = after_.find(key); it != after_.end()) return it->second;
  const Taken taken = {row, accepts};
  const RowId made = make(std::span(&taken, 1));
  charge(48);
  after_.emplace(key, made);
  return made;
}

std::optional<RowId> Rows::try_after(RowId row, uint32_t accepts) {
  try {
    return after(row, accepts);
  } catch (const StepsError&) {
    return {};
  }
}

RowId Rows::after(std::span<const Taken> taken) {
  spend(kLookSteps + taken.size());
  const std::vector<Taken> key(taken.begin(), taken.end());
  if (const auto it = after_any_.find(key); it != after_any_.end()) return it->second;
  const RowId made = make(taken);
  charge(80 + taken.size_bytes());
  after_any_.emplace(key, made);
  return made;
}

RowId Rows::make(std::span<const Taken> taken) {
  // As large as the last row needs: cleared for each of many small ones, that of the largest would be dear.
  table_.assign(std::max<size_t>(64, std::bit_ceil(made_.size() * 2 + 1)), 0);
  made_.clear();
  made_may_end_ = false;
  for (const Taken& one : taken) scan(one);
  close();
  return find_or_make();
}

RowId Rows::find_or_make() {
  std::erase_if(made_, [&](const Item& item) { return grammar_.items()[item.dot].kind == Kind::kEnd; });
  spend(sort_steps(made_.size()));
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
    spend(sort_steps(lexemes.size() + prediction.lexemes.size()));
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
  // A lexeme's expression is looked at when the lexer makes the state where it begins.
  spend(rules.size() + sort_steps(made.dots.size()) + kLookSteps * made.lexemes.size());
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
