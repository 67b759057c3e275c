// Filters on numbers.
#include <cmath>

#include "text/jinja/parse/literal.h"
#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"

namespace ingot::jinja {
namespace {

Value absolute(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "abs", args, {});
  if (in.is(Kind::kFloat)) return Value::real(std::fabs(in.real()));
  if (in.is_integral()) return in.integer() < 0 ? negate(ip, in, true) : Value::integer(in.integer());
  if (in.is_undefined()) ip.fail_undefined(in);
  ip.fail(fmt::format("bad operand type for abs(): '{}'", type_name(in.kind())));
}

// int(float), as far as 64 bits go.
Value truncated(Interp& ip, double value) {
  if (!(std::fabs(value) < 9.2e18)) ip.fail("an integer beyond 64 bits");
  return Value::integer(static_cast<int64_t>(value));
}

Value to_int(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "int", args, {"default", "base"});
  Value fallback = params.has(0) ? params[0] : Value::integer(0);
  if (in.is_undefined()) ip.fail_undefined(in);
  if (in.is_integral()) return Value::integer(in.integer());
  if (in.is(Kind::kBigInt)) return in;
  if (in.is(Kind::kFloat)) {
    if (std::isnan(in.real())) return fallback;
    return truncated(ip, in.real());
  }
  if (!in.is_str()) return fallback;
  int64_t base = params.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return fallback;
  if (auto value = parse_int(in.text().view(), static_cast<int>(base))) return Value::integer(*value);
  std::optional<double> real = parse_float(in.text().view());
  return real && std::isfinite(*real) ? truncated(ip, *real) : fallback;
}

Value to_float(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "float", args, {"default"});
  if (in.is_undefined()) ip.fail_undefined(in);
  if (in.is_number()) return Value::real(in.number());
  if (in.is_str()) {
    if (auto value = parse_float(in.text().view())) return Value::real(*value);
  }
  return params.has(0) ? params[0] : Value::real(0);
}

// round(value, digits): exact halves go to the even neighbour, as printing to so many digits does.
double round_half_even(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 22) return value;
  if (digits >= 0) return parse_float(fmt::format("{:.{}f}", value, digits)).value_or(value);
  double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::isinf(scale) ? 0 : std::nearbyint(value / scale) * scale;
}

Value round_int(Interp& ip, int64_t value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  int64_t scale = 1;
  for (; digits < 0; ++digits) scale *= 10;
  int64_t rest = ((value % scale) + scale) % scale;
  int64_t down = value - rest;
  bool up = rest * 2 > scale || (rest * 2 == scale && (down / scale) % 2 != 0);
  int64_t out = down;
  if (up && __builtin_add_overflow(down, scale, &out)) ip.fail("an integer beyond 64 bits");
  return Value::integer(out);
}

Value round(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "round", args, {"precision", "method"});
  std::string method = params.has(1) ? params.text(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") ip.fail("method must be common, ceil or floor");
  if (in.is_undefined()) ip.fail_undefined(in);
  if (!in.is_number()) ip.fail(fmt::format("type {} doesn't define __round__ method", type_name(in.kind())));
  int64_t precision = params.integer(0, 0);
  if (method == "common") {
    if (in.is_integral()) return round_int(ip, in.integer(), precision);
    return Value::real(round_half_even(in.real(), precision));
  }
  double scale = std::pow(10.0, static_cast<double>(precision));
  double scaled = in.number() * scale;
  if (!std::isfinite(scaled)) ip.fail("cannot convert float infinity or NaN to integer");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr FilterDef kFilters[] = {{"abs", absolute}, {"int", to_int}, {"float", to_float}, {"round", round}};

}  // namespace

std::span<const FilterDef> number_filters() { return kFilters; }

}  // namespace ingot::jinja
