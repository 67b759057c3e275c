// The parser: Earley's, over lexemes. A row is the set of items that hold after some lexemes; an item is a dot in a
// rule's right side and the row where that rule began. Rows with equal items are one row, so that a list's tenth
// element meets the rows of its first, and taking a lexeme twice from one row is a look-up. A row never changes: going
// back is forgetting a number.
//
// Right recursion takes one step a completion (Leo's way). Of a text that can be read in many ways a row may take as
// many steps as all rows before it together; so steps are counted and paid for. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
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

  // What steps are spent on. Each has its own allowance: the limit at first and at most, and every mask and every token
  // brings a part of that back.
  enum class For : uint8_t { kMask, kToken, kGuess };
  // Up to the next call it is this; first `brings` of 64 parts of what one brings come back. Where too little is left
  // after() throws LimitError.
  void begin(For what, size_t brings = 64);

  // The row after the lexemes of number `accepts`, each of which `row` awaits. Throws LimitError.
  RowId after(RowId row, uint32_t accepts);
  // None: too few steps are left for it, and who has more may find it.
  std::optional<RowId> try_after(RowId row, uint32_t accepts);
  struct Taken {
    RowId row;
    uint32_t accepts;
    auto operator<=>(const Taken&) const = default;
  };
  RowId after(std::span<const Taken> taken);  // any of these

  LexState start(RowId row) const { return rows_[row].start; }  // where the lexemes that it awaits begin
  bool may_end(RowId row) const { return rows_[row].may_end; }  // the text so far is complete
  size_t size() const { return rows_.size(); }
  size_t memory() const { return memory_; }
  size_t steps() const { return steps_; }  // so far

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
  struct StepsError : LimitError {
    using LimitError::LimitError;
  };
  RowId make(std::span<const Taken> taken);
  void scan(const Taken& taken);
  void add(Item item);
  void close();
  RowId find_or_make();
  uint32_t predict(std::vector<RuleId> seeds);
  // Items of a row, and dots that it predicts, before one symbol.
  struct Waiting {
    std::span<const Item> items;
    std::span<const uint32_t> dots;
    size_t size() const { return items.size() + dots.size(); }
  };
  Waiting waiting(RowId row, uint64_t symbol);
  void add_after(RowId row, uint64_t symbol);
  bool only_caller(Completed at, Completed& caller);
  Completed topmost(Completed at);
  void charge(size_t bytes);
  size_t allowance() const { return for_ == For::kMask ? limits_.mask_row_steps : limits_.token_row_steps; }
  void spend(size_t steps);

  const Grammar& grammar_;
  Lexer& lexer_;
  const Limits limits_;
  std::vector<Item> items_;
  std::vector<Row> rows_;
  std::vector<Prediction> predictions_;
  std::map<std::vector<RuleId>, uint32_t> prediction_of_;
  std::unordered_map<uint64_t, RowId> after_;          // (row, accepts)
  std::map<std::vector<Taken>, RowId> after_any_;      // of several
  std::unordered_multimap<uint64_t, RowId> by_items_;  // by hash
  std::unordered_map<uint64_t, Completed> topmost_;    // (rule, row)
  size_t memory_ = 0;
  For for_ = For::kMask;
  std::array<size_t, 3> left_;  // by what steps are for
  size_t steps_ = 0;
  // Of the row that is being made: its items, and where each is in a table of open addressing.
  std::vector<Item> made_;
  std::vector<uint32_t> table_;  // 1 + index in made_; 0: free
  bool made_may_end_ = false;
};

}  // namespace ingot::grammar
