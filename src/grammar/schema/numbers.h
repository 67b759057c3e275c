// Sets of numbers as expressions over their decimal spelling: -?(0|[1-9][0-9]*)(\.[0-9]+)?, without exponent. An
// expression here has with a number all its spellings (1, 1.0, 1.00; 0 and -0), so that intersection and complement of
// the spellings are those of the numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "files/json.h"
#include "grammar/regex/regex.h"

namespace ingot::grammar {

// A number as it is written in decimal: whole digits without leading zeros ("0" where there are none) and a fraction
// without trailing zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
};

// REQUIRES: `number` is a number. A float has the digits of the shortest text that reads as the same float.
Decimal decimal_of(const Json& number);

struct Bound {
  Decimal value;
  bool exclusive = false;
};

class NumberExprs {
 public:
  explicit NumberExprs(Regexes& pool);
  Expr all() const { return all_; }
  Expr integers() const { return integers_; }    // with all spellings: 1.0 is one
  Expr plain_integer() const { return plain_; }  // -?(0|[1-9][0-9]*)
  Expr exactly(const Decimal& value);
  Expr at_least(const Bound& low);
  Expr at_most(const Bound& high);
  // nullopt: `step` has too many digits. REQUIRES: step > 0.
  std::optional<Expr> multiples(const Decimal& step);

 private:
  Expr digit(char first, char last) {
    return pool_.bytes(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
  }
  Expr digits(size_t min, uint32_t max = kUnbounded) { return pool_.repeat(digit_, static_cast<uint32_t>(min), max); }
  // Of unsigned numbers: more or less than `value`, or equal where `equal` says so.
  Expr above(const Decimal& value, bool equal);
  Expr below(const Decimal& value, bool equal);

  Regexes& pool_;
  Expr digit_, minus_, point_, any_fraction_, zero_fraction_, nonzero_fraction_, unsigned_, zero_, all_, integers_,
      plain_;
};

}  // namespace ingot::grammar
