// What compiling a grammar and matching by it may cost, and the errors of both. Beyond a limit compiling throws and a
// matcher fails with a message; nothing is ever let through unchecked.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "grammar/meter.h"

namespace ingot::grammar {

struct Limits {
  size_t source_bytes = size_t{1} << 20;    // of a schema, grammar or pattern
  size_t depth = 512;                       // nesting of what is written: parentheses, schemas in schemas
  size_t nodes = 500'000;                   // regular expressions of one grammar
  size_t items = 500'000;                   // symbols on the right sides of one grammar's rules
  size_t steps = 2'000'000;                 // of any walk while compiling (emptiness, cross products)
  size_t set_bytes = size_t{256} << 20;     // sets of values that a schema is compiled through
  size_t states = 100'000;                  // of one grammar's lexer, made while matching
  size_t row_items = 50'000;                // of the parser at one place of the text
  size_t matcher_bytes = size_t{64} << 20;  // rows of one matcher's parser
  size_t mask_steps = 20'000'000;           // bytes of the vocabulary walked for one mask
  // Items that the parser adds, some nanoseconds each, that one answer may save up: for masks, and for taking tokens. A
  // fiftieth comes back with each. Of real grammars a mask takes 2,000 at most and 400 in the mean, one of 400 optional
  // members 15,000 and 900; a token 1,200 and 70.
  size_t mask_row_steps = 5'000'000, token_row_steps = 250'000;
  // What is left of a lexeme after a byte counts one, about 150 ns on a Neoverse-V1: for one mask, and for one grammar.
  size_t mask_work = 1'000'000, lexer_work = 20'000'000;
  size_t cache_bytes = size_t{64} << 20;   // masks kept by one grammar, and as much for where lexemes end
  size_t lexer_bytes = size_t{512} << 20;  // of one grammar's lexer and the expressions that it derives
  Meter* meter = nullptr;                  // counts what a compile costs; not kept beyond it
};

// A source that is refused, or a limit: "[part] what", and the place in the source: a JSON pointer ("#/properties/a")
// or "line 3, column 7"; empty where there is none.
class GrammarError : public Error {
 public:
  template <class... Args>
  GrammarError(std::string place, fmt::format_string<Args...> format, Args&&... args)
      : Error("{}", fmt::format(format, std::forward<Args>(args)...)), place_(std::move(place)) {}
  const std::string& place() const { return place_; }

 private:
  std::string place_;
};

class LimitError : public GrammarError {
 public:
  template <class... Args>
  explicit LimitError(fmt::format_string<Args...> format, Args&&... args)
      : GrammarError("", "{}", fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace ingot::grammar
