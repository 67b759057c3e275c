// The tests: what may stand after `is`.
#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

template <class F>
bool plain(Interp& ip, const Value& in, Args& args, F&& f) {
  Params params(ip, "test", args, {});
  return f(in);
}

// All cased characters of one case, and at least one of them.
bool all_cased(Interp& ip, const Value& in, Property wanted, Property other) {
  Text text = to_text(ip, in);
  ip.budget().step(static_cast<int64_t>(text.size() / 8));
  bool any = false;
  for (size_t i = 0; i < text.size(); i += char_at(text.view(), i).size) {
    uint32_t cp = char_at(text.view(), i).cp;
    if (has_property(cp, other) || has_property(cp, Property::kTitle)) return false;
    any = any || has_property(cp, wanted);
  }
  return any;
}

bool remainder_is(Interp& ip, const Value& in, const Value& by, int64_t rest) {
  Value left = arithmetic(ip, Op::kMod, in, by);
  return equals(ip, left, Value::integer(rest));
}

bool is_iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kStr:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kLoop:
    case Kind::kGenerator:
      return true;
    default:
      return false;
  }
}

bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_str() || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kRange);
}

bool is_callable(const Value& v) {
  return v.is_undefined() || v.is(Kind::kFunction) || v.is(Kind::kMacro) || v.is(Kind::kLoop);
}

bool same_as(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_integral()) return a.integer() == b.integer();
  if (a.is(Kind::kFloat)) return a.real() == b.real();
  return a.is_none() || a.obj() == b.obj();
}

bool compared(Interp& ip, const Value& in, Args& args, Compare op) {
  Params params(ip, "test", args, {"other"}, 1);
  return compare(ip, op, in, params[0]);
}

#define PLAIN(expression) \
  [](Interp& ip, const Value& in, Args& args) { return plain(ip, in, args, [](const Value& v) { return expression; }); }
#define COMPARED(op) [](Interp& ip, const Value& in, Args& args) { return compared(ip, in, args, op); }

constexpr TestDef kTests[] = {
    {"defined", PLAIN(!v.is_undefined())},
    {"undefined", PLAIN(v.is_undefined())},
    {"none", PLAIN(v.is_none())},
    {"boolean", PLAIN(v.is(Kind::kBool))},
    {"true", PLAIN(v.is(Kind::kBool) && v.integer() != 0)},
    {"false", PLAIN(v.is(Kind::kBool) && v.integer() == 0)},
    {"integer", PLAIN(v.is(Kind::kInt) || v.is(Kind::kBigInt))},
    {"float", PLAIN(v.is(Kind::kFloat))},
    {"number", PLAIN(v.is_number() || v.is(Kind::kBigInt))},
    {"string", PLAIN(v.is_str())},
    {"mapping", PLAIN(v.is(Kind::kDict))},
    {"sequence", PLAIN(is_sequence(v))},
    {"iterable", PLAIN(is_iterable(v))},
    {"callable", PLAIN(is_callable(v))},
    {"escaped", PLAIN(v.is_str() && v.markup())},
    {"filter", PLAIN(v.is_str() && find_filter(v.text().view()) != nullptr)},
    {"test", PLAIN(v.is_str() && find_test(v.text().view()) != nullptr)},
    {"lower",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "lower", args, {});
       return all_cased(ip, in, Property::kLower, Property::kUpper);
     }},
    {"upper",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "upper", args, {});
       return all_cased(ip, in, Property::kUpper, Property::kLower);
     }},
    {"odd",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "odd", args, {});
       return remainder_is(ip, in, Value::integer(2), 1);
     }},
    {"even",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "even", args, {});
       return remainder_is(ip, in, Value::integer(2), 0);
     }},
    {"divisibleby",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "divisibleby", args, {"num"}, 1);
       return remainder_is(ip, in, params[0], 0);
     }},
    {"sameas",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "sameas", args, {"other"}, 1);
       return same_as(in, params[0]);
     }},
    {"in",
     [](Interp& ip, const Value& in, Args& args) {
       Params params(ip, "in", args, {"seq"}, 1);
       return contains(ip, params[0], in);
     }},
    {"==", COMPARED(Compare::kEq)},
    {"eq", COMPARED(Compare::kEq)},
    {"equalto", COMPARED(Compare::kEq)},
    {"!=", COMPARED(Compare::kNe)},
    {"ne", COMPARED(Compare::kNe)},
    {">", COMPARED(Compare::kGt)},
    {"gt", COMPARED(Compare::kGt)},
    {"greaterthan", COMPARED(Compare::kGt)},
    {">=", COMPARED(Compare::kGe)},
    {"ge", COMPARED(Compare::kGe)},
    {"<", COMPARED(Compare::kLt)},
    {"lt", COMPARED(Compare::kLt)},
    {"lessthan", COMPARED(Compare::kLt)},
    {"<=", COMPARED(Compare::kLe)},
    {"le", COMPARED(Compare::kLe)},
};
#undef PLAIN
#undef COMPARED

}  // namespace

const TestDef* find_test(std::string_view name) {
  for (const TestDef& def : kTests) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

}  // namespace ingot::jinja
