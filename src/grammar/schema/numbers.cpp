#include "grammar/schema/numbers.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

namespace ingot::grammar {

namespace {

// `mantissa` times ten to the power of `exponent`; the mantissa may have a point.
Decimal from_scientific(std::string_view mantissa, int exponent) {
  Decimal out;
  if (!mantissa.empty() && mantissa[0] == '-') {
    out.negative = true;
    mantissa.remove_prefix(1);
  }
  std::string digits;
  int point = static_cast<int>(std::min(mantissa.find('.'), mantissa.size())) + exponent;
  for (const char c : mantissa) {
    if (c != '.') digits += c;
  }
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<size_t>(point) > digits.size()) digits.append(static_cast<size_t>(point) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<size_t>(point));
  out.fraction = digits.substr(static_cast<size_t>(point));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole.push_back('0');
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

}  // namespace

Decimal decimal_of(const Json& number) {
  if (number.is_int64()) return from_scientific(std::to_string(number.get_int64()), 0);
  if (number.is_uint64()) return from_scientific(std::to_string(number.get_uint64()), 0);
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number.get_double(), std::chars_format::scientific);
  const std::string_view all(text, static_cast<size_t>(end.ptr - text));
  const size_t e = all.find('e');
  int exponent = 0;
  const size_t sign = all[e + 1] == '+' ? 1 : 0;
  std::from_chars(all.data() + e + 1 + sign, all.data() + all.size(), exponent);
  return from_scientific(all.substr(0, e), exponent);
}

NumberExprs::NumberExprs(Regexes& pool) : pool_(pool) {
  digit_ = digit('0', '9');
  minus_ = pool.literal("-");
  point_ = pool.literal(".");
  any_fraction_ = pool.optional(pool.concat(point_, digits(1)));
  zero_fraction_ = pool.optional(pool.concat(point_, pool.plus(pool.literal("0"))));
  nonzero_fraction_ = pool.concat({point_, digits(0), digit('1', '9'), digits(0)});
  const Expr whole = pool.any_of({pool.literal("0"), pool.concat(digit('1', '9'), digits(0))});
  unsigned_ = pool.concat(whole, any_fraction_);
  zero_ = pool.concat({pool.optional(minus_), pool.literal("0"), zero_fraction_});
  plain_ = pool.concat(pool.optional(minus_), whole);
  integers_ = pool.concat(plain_, zero_fraction_);
  all_ = pool.concat(pool.optional(minus_), unsigned_);
}

Expr NumberExprs::exactly(const Decimal& value) {
  if (value.is_zero()) return zero_;
  std::string text;
  if (value.negative) text.push_back('-');
  text.append(value.whole);
  if (value.is_integer()) return pool_.concat(pool_.literal(text), zero_fraction_);
  text.push_back('.');
  text.append(value.fraction);
  return pool_.concat(pool_.literal(text), pool_.star(pool_.literal("0")));
}

Expr NumberExprs::above(const Decimal& value, bool equal) {
  const std::string& whole = value.whole;
  const std::string& fraction = value.fraction;
  std::vector<Expr> parts{pool_.concat({digit('1', '9'), digits(whole.size()), any_fraction_})};
  for (size_t i = 0; i < whole.size(); i++) {
    if (whole[i] == '9') continue;
    const Expr more = digit(static_cast<char>(whole[i] + 1), '9');
    const auto rest = static_cast<uint32_t>(whole.size() - i - 1);
    parts.push_back(pool_.concat({pool_.literal(whole.substr(0, i)), more, digits(rest, rest), any_fraction_}));
  }
  const Expr same = pool_.literal(whole);
  if (fraction.empty()) {
    parts.push_back(pool_.concat(same, equal ? any_fraction_ : nonzero_fraction_));
    return pool_.any_of(parts);
  }
  const Expr start = pool_.concat(same, point_);
  for (size_t i = 0; i < fraction.size(); i++) {
    if (fraction[i] == '9') continue;
    const Expr more = digit(static_cast<char>(fraction[i] + 1), '9');
    parts.push_back(pool_.concat({start, pool_.literal(fraction.substr(0, i)), more, digits(0)}));
  }
  const Expr tail = equal ? digits(0) : pool_.concat({digits(0), digit('1', '9'), digits(0)});
  parts.push_back(pool_.concat({start, pool_.literal(fraction), tail}));
  return pool_.any_of(parts);
}

Expr NumberExprs::below(const Decimal& value, bool equal) {
  const std::string& whole = value.whole;
  const std::string& fraction = value.fraction;
  std::vector<Expr> parts;
  if (whole.size() > 1) {
    const auto most = static_cast<uint32_t>(whole.size() - 2);
    parts.push_back(pool_.concat(pool_.any_of({pool_.literal("0"), pool_.concat(digit('1', '9'), digits(0, most))}),
                                 any_fraction_));
  }
  for (size_t i = 0; i < whole.size(); i++) {
    const char least = i == 0 && whole.size() > 1 ? '1' : '0';
    if (whole[i] <= least) continue;
    const Expr less = digit(least, static_cast<char>(whole[i] - 1));
    const auto rest = static_cast<uint32_t>(whole.size() - i - 1);
    parts.push_back(pool_.concat({pool_.literal(whole.substr(0, i)), less, digits(rest, rest), any_fraction_}));
  }
  const Expr same = pool_.literal(whole);
  if (fraction.empty()) {
    if (equal) parts.push_back(pool_.concat(same, zero_fraction_));
    return pool_.any_of(parts);
  }
  parts.push_back(same);
  const Expr start = pool_.concat(same, point_);
  for (size_t i = 0; i < fraction.size(); i++) {
    const Expr before = pool_.concat(start, pool_.literal(fraction.substr(0, i)));
    if (i > 0) parts.push_back(before);
    if (fraction[i] == '0') continue;
    parts.push_back(pool_.concat({before, digit('0', static_cast<char>(fraction[i] - 1)), digits(0)}));
  }
  if (equal) parts.push_back(pool_.concat({start, pool_.literal(fraction), pool_.star(pool_.literal("0"))}));
  return pool_.any_of(parts);
}

Expr NumberExprs::at_least(const Bound& low) {
  if (low.value.is_zero()) {
    const Expr positive = above(low.value, false);
    return low.exclusive ? positive : pool_.any_of({positive, zero_});
  }
  if (!low.value.negative) return above(low.value, !low.exclusive);
  return pool_.any_of({unsigned_, pool_.concat(minus_, below(low.value, !low.exclusive))});
}

Expr NumberExprs::at_most(const Bound& high) {
  if (high.value.is_zero()) {
    const Expr negative = pool_.concat(minus_, above(high.value, false));
    return high.exclusive ? negative : pool_.any_of({negative, zero_});
  }
  if (high.value.negative) return pool_.concat(minus_, above(high.value, !high.exclusive));
  return pool_.any_of({pool_.concat(minus_, unsigned_), below(high.value, !high.exclusive)});
}

std::optional<Expr> NumberExprs::multiples(const Decimal& step) {
  constexpr size_t kMaxPlaces = 15;
  const std::string digits_of_step = step.whole + step.fraction;
  uint64_t modulus = 0;
  for (const char c : digits_of_step) {
    modulus = modulus * 10 + static_cast<uint64_t>(c - '0');
    if (modulus > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  }
  if (step.fraction.size() > kMaxPlaces) return std::nullopt;
  const Expr numbers =
      pool_.decimal_multiples(static_cast<uint32_t>(modulus), static_cast<uint32_t>(step.fraction.size()));
  return pool_.all_of({all_, pool_.concat(pool_.optional(minus_), numbers)});
}

}  // namespace ingot::grammar
