// The parser: Earley's, over lexemes. A row is the set of items that hold after some lexemes; an item is a dot in a
// rule's right side and the row where that rule began. Rows with equal items are one row, so that a list's tenth
// element meets the rows of its first, and taking a lexeme twice from one row is a look-up. A row never changes: going
// back is forgetting a number.
//
// Right recursion takes one step a completion (Leo's way). Used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/lexer.h"

namespace ingot::grammar {

using RowId = uint32_t;

class Rows {
 public:
  Rows(const Grammar& grammar, Lexer& lexer, const Limits& limits);

  static constexpr RowId kFirst = 0;  // before any text

  // The row after the lexemes of number `accepts`, each of which `row` awaits. Throws LimitError.
  RowId after(RowId row, uint32_t accepts);
  struct Taken {
    RowId row;
    uint32_t accepts;
    bool operator==(const Taken&) const = default;
  };
  RowId after(std::span<const Taken> taken);  // any of these

  LexState start(RowId row) const { return rows_[row].start; }  // where the lexemes that it awaits begin
  bool may_end(RowId row) const { return rows_[row].may_end; }  // the text so far is complete
  size_t size() const { return rows_.size(); }
  size_t memory() const { return memory_; }

 private:
  struct Item {
    uint32_t dot;
    RowId from;  // where its rule began
    uint64_t key() const { return uint64_t{dot} << 32 | from; }
    bool operator==(const Item&) const = default;
  };
  // What rules predict together, shared by all rows that predict the same: sorted by the awaited symbol.
  struct Prediction {
    std::vector<uint32_t> dots;
    std::vector<LexemeId> lexemes;  // that are awaited, sorted
    LexState start;                 // of these alone
  };
  struct Row {
    uint32_t first, count;  // in items_: sorted by the awaited symbol; no complete ones
    uint32_t prediction;
    LexState start;
    bool may_end;
  };
  struct Completed {
    RuleId rule;
    RowId from;
  };

  // Rules before lexemes, each by number.
  uint64_t awaited(uint32_t dot) const {
    const Grammar::Item& item = grammar_.items()[dot];
    return uint64_t{item.kind == Grammar::Item::Kind::kLexeme ? 1u : 0u} << 32 | item.id;
  }
  void scan(const Taken& taken);
  void add(Item item);
  void close();
  RowId find_or_make();
  uint32_t predict(std::vector<RuleId> seeds);
  bool only_caller(Completed at, Completed& caller) const;
  Completed topmost(Completed at);
  template <class F>
  void each_waiting(RowId row, uint64_t symbol, F f) const;
  void charge(size_t bytes);

  const Grammar& grammar_;
  Lexer& lexer_;
  const Limits limits_;
  std::vector<Item> items_;
  std::vector<Row> rows_;
  std::vector<Prediction> predictions_;
  std::map<std::vector<RuleId>, uint32_t> prediction_of_;
  std::unordered_map<uint64_t, RowId> after_;          // (row, accepts)
  std::unordered_multimap<uint64_t, RowId> by_items_;  // by hash
  std::unordered_map<uint64_t, Completed> topmost_;    // (rule, row)
  size_t memory_ = 0;
  // Of the row that is being made: its items, and where each is in a table of open addressing.
  std::vector<Item> made_;
  std::vector<uint32_t> table_;  // 1 + index in made_; 0: free
  bool made_may_end_ = false;
};

}  // namespace ingot::grammar
