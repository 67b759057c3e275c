// Arithmetic and comparison.
#include "text/jinja/value/ops.h"

#include <cmath>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/strings.h"

namespace ingot::jinja {
namespace {

[[noreturn]] void unsupported(Interp& interp, std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) interp.fail_undefined(a);
  if (b.is_undefined()) interp.fail_undefined(b);
  interp.fail(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a.kind()), type_name(b.kind())));
}

std::string_view op_name(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    default:
      return "**";
  }
}

int64_t int_power(Interp& interp, int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) interp.fail("an integer beyond 64 bits");
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) interp.fail("an integer beyond 64 bits");
  }
  return result;
}

Value int_arithmetic(Interp& interp, Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Op::kSub:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Op::kMul:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Op::kDiv:
      if (b == 0) interp.fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) interp.fail("integer division or modulo by zero");
      if (b == -1) {  // INT64_MIN / -1 does not fit
        overflow = op == Op::kFloorDiv && __builtin_sub_overflow(int64_t{0}, a, &out);
        break;
      }
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) --quotient, rest += b;
      out = op == Op::kFloorDiv ? quotient : rest;
      break;
    }
    default:
      if (b < 0) {
        if (a == 0) interp.fail("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value::integer(int_power(interp, a, b));
  }
  if (overflow) interp.fail("an integer beyond 64 bits");
  return Value::integer(out);
}

Value float_arithmetic(Interp& interp, Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::real(a + b);
    case Op::kSub:
      return Value::real(a - b);
    case Op::kMul:
      return Value::real(a * b);
    case Op::kDiv:
      if (b == 0) interp.fail("float division by zero");
      return Value::real(a / b);
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) interp.fail("float floor division or modulo by zero");
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b, quotient -= 1;
      if (rest == 0) rest = std::copysign(0.0, b);
      if (op == Op::kMod) return Value::real(rest);
      double floored = std::floor(quotient);
      if (quotient - floored > 0.5) floored += 1;
      return Value::real(quotient == 0 ? std::copysign(0.0, a / b) : floored);
    }
    default: {
      if (a == 0 && b < 0) interp.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(b) && b != std::floor(b)) interp.fail("complex numbers are not supported");
      double out = std::pow(a, b);
      if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) interp.fail("Numerical result out of range");
      return Value::real(out);
    }
  }
}

Value add_strings(Interp& interp, Value left, const Value& right) {
  if (left.markup() != right.markup()) {
    left = escape(interp, left);
    return add_strings(interp, std::move(left), escape(interp, right));
  }
  size_t more = right.text().size();
  interp.budget().scan(more);
  if (left.unique()) {  // as in a + b + c: nobody else sees the left side
    interp.budget().take(more);
    Str& str = left.as<Str>();
    str.text.append(right.text());
    str.bytes += more;
    str.chars = SIZE_MAX;
    return left;
  }
  interp.budget().scan(left.text().size());
  Text text;
  text.reserve(left.text().size() + more);
  text.append(left.text());
  text.append(right.text());
  return interp.str(std::move(text)).with_markup(left.markup());
}

Value add_lists(Interp& interp, const Value& left, const Value& right) {
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  interp.budget().step(static_cast<int64_t>(items.size()));
  return left.is(Kind::kList) ? interp.list(std::move(items)) : interp.tuple(std::move(items));
}

bool same_sequence(Interp& interp, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equals(interp, a[i], b[i])) return false;
  }
  return true;
}

bool same_dict(Interp& interp, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equals(interp, value, *other)) return false;
  }
  return true;
}

bool compare_numbers(Compare op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    int64_t a = left.integer(), b = right.integer();
    return op == Compare::kLt ? a < b : op == Compare::kLe ? a <= b : op == Compare::kGt ? a > b : a >= b;
  }
  double a = left.number(), b = right.number();
  return op == Compare::kLt ? a < b : op == Compare::kLe ? a <= b : op == Compare::kGt ? a > b : a >= b;
}

}  // namespace

Value arithmetic(Interp& interp, Op op, Value left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return int_arithmetic(interp, op, left.integer(), right.integer());
    return float_arithmetic(interp, op, left.number(), right.number());
  }
  if (op == Op::kAdd) {
    if (left.is_str() && right.is_str()) return add_strings(interp, std::move(left), right);
    if (left.is_sequence() && left.kind() == right.kind()) return add_lists(interp, left, right);
  }
  if (op == Op::kMul) {
    bool left_repeats = left.is_str() || left.is_sequence();
    bool right_repeats = right.is_str() || right.is_sequence();
    if (left_repeats && right.is_integral()) return repeat(interp, left, right.integer());
    if (right_repeats && left.is_integral()) return repeat(interp, right, left.integer());
  }
  if (op == Op::kMod && left.is_str()) return percent_format(interp, left, right);
  unsupported(interp, op_name(op), left, right);
}

Value negate(Interp& interp, const Value& value, bool minus) {
  if (value.is_undefined()) interp.fail_undefined(value);
  if (value.is(Kind::kFloat)) return Value::real(minus ? -value.real() : value.real());
  if (!value.is_integral()) {
    interp.fail(fmt::format("bad operand type for unary {}: '{}'", minus ? '-' : '+', type_name(value.kind())));
  }
  int64_t out = value.integer();
  if (minus && __builtin_sub_overflow(int64_t{0}, out, &out)) interp.fail("an integer beyond 64 bits");
  return Value::integer(out);
}

bool equals(Interp& interp, const Value& a, const Value& b) {
  interp.budget().step();
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    case Kind::kStr:
      if (a.text().size() != b.text().size()) return false;
      interp.budget().scan(a.text().size());
      return a.text().bytes() == b.text().bytes();
    case Kind::kBigInt:
      return a.as<Str>().text.bytes() == b.as<Str>().text.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return same_sequence(interp, a.items(), b.items());
    case Kind::kDict:
      return same_dict(interp, a.dict(), b.dict());
    case Kind::kRange:
      return same_sequence(interp, interp.collect(a), interp.collect(b));
    default:
      return a.obj() == b.obj();
  }
}

bool less(Interp& interp, const Value& a, const Value& b) {
  interp.budget().step();
  if (a.is_number() && b.is_number()) return compare_numbers(Compare::kLt, a, b);
  if (a.is_str() && b.is_str()) {
    interp.budget().scan(std::min(a.text().size(), b.text().size()));
    return a.text().bytes() < b.text().bytes();  // UTF-8 sorts as its characters do
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equals(interp, x[i], y[i])) return less(interp, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  if (a.is_undefined()) interp.fail_undefined(a);
  if (b.is_undefined()) interp.fail_undefined(b);
  interp.fail(
      fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a.kind()), type_name(b.kind())));
}

bool compare(Interp& interp, Compare op, const Value& left, const Value& right) {
  switch (op) {
    case Compare::kEq:
      return equals(interp, left, right);
    case Compare::kNe:
      return !equals(interp, left, right);
    case Compare::kIn:
      return contains(interp, right, left);
    case Compare::kNotIn:
      return !contains(interp, right, left);
    default:
      break;
  }
  if (left.is_number() && right.is_number()) return compare_numbers(op, left, right);
  if (op == Compare::kLt) return less(interp, left, right);
  if (op == Compare::kGt) return less(interp, right, left);
  return op == Compare::kLe ? !less(interp, right, left) : !less(interp, left, right);
}

bool contains(Interp& interp, const Value& container, const Value& item) {
  if (container.is_str()) {
    if (!item.is_str()) {
      interp.fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item.kind())));
    }
    return find_text(interp, container.text().view(), item.text().view(), 0) != std::string_view::npos;
  }
  bool keys = container.is(Kind::kView) && container.as<View>().part == View::kKeys;
  if (container.is(Kind::kDict) || keys) {
    if (!is_key(item)) interp.fail(fmt::format("unhashable type: '{}'", type_name(item.kind())));
    return (keys ? container.as<View>().dict.dict() : container.dict()).find(item) != nullptr;
  }
  switch (container.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      interp.fail(fmt::format("argument of type '{}' is not iterable", type_name(container.kind())));
    default:
      break;
  }
  Cursor cursor(interp, container);
  for (Value other; cursor.next(other);) {
    if (equals(interp, other, item)) return true;
  }
  return false;
}

}  // namespace ingot::jinja
