// The expressions of the interpreter.
#include <utility>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"

namespace ingot::jinja {
namespace {

bool is_arithmetic(Op op) { return op >= Op::kAdd && op <= Op::kPow; }

}  // namespace

Value Interp::eval(const Expr* e, Activation& act) {
  Deeper deeper(*this);
  budget_.step();
  place_ = e->place;
  switch (e->op) {
    case Op::kConst:
      return e->value;
    case Op::kName: {
      const Value& value = slot(act, e->ref);
      return value.is_missing() ? Value::undefined(e->value) : value;
    }
    case Op::kTuple:
    case Op::kList:
    case Op::kDict:
      return eval_container(e, act);
    case Op::kAttr:
      return get_attr(*this, eval(e->a, act), e->value);
    case Op::kItem: {
      Value object = eval(e->a, act);
      return get_item(*this, object, eval(e->b, act));
    }
    case Op::kSlice:
      return eval_slice(e, act);
    case Op::kCall:
      return eval_call(e, act, Value());
    case Op::kFilter:
      return eval_filter(e, act, nullptr);
    case Op::kTest:
      return eval_test(e, act);
    case Op::kConcat:
      return eval_concat(e, act);
    case Op::kCompare:
      return eval_compare(e, act);
    case Op::kAnd: {
      Value left = eval(e->a, act);
      return truthy(left) ? eval(e->b, act) : left;
    }
    case Op::kOr: {
      Value left = eval(e->a, act);
      return truthy(left) ? left : eval(e->b, act);
    }
    case Op::kNot:
      return Value::boolean(!truthy(eval(e->a, act)));
    case Op::kNeg:
    case Op::kPos:
      return negate(*this, eval(e->a, act), e->op == Op::kNeg);
    case Op::kCond:
      return eval_cond(e, act);
    case Op::kMember:
      fail("cannot read a target");
    default:
      return eval_chain(e, act);
  }
}

Value Interp::eval_container(const Expr* e, Activation& act) {
  if (e->op == Op::kDict) {
    Value out(new_dict());
    for (size_t i = 0; i < e->items.size(); i += 2) {
      Value key = eval(e->items[i], act);
      Value value = eval(e->items[i + 1], act);
      if (!is_key(key)) fail(fmt::format("unhashable type: '{}'", type_name(key.kind())));
      out.as<Dict>().set(key, std::move(value));
    }
    return out;
  }
  std::vector<Value> items;
  items.reserve(e->items.size());
  for (const Expr* item : e->items) items.push_back(eval(item, act));
  return e->op == Op::kList ? list(std::move(items)) : tuple(std::move(items));
}

// a + b + c …: the left sides without recursion, since published templates chain dozens.
Value Interp::eval_chain(const Expr* e, Activation& act) {
  if (!is_arithmetic(e->a->op)) {
    Value left = eval(e->a, act);
    Value right = eval(e->b, act);
    return arithmetic(*this, e->op, std::move(left), right);
  }
  std::vector<const Expr*> spine;
  for (; is_arithmetic(e->op); e = e->a) spine.push_back(e);
  Value left = eval(e, act);
  while (!spine.empty()) {
    budget_.step();
    Value right = eval(spine.back()->b, act);
    left = arithmetic(*this, spine.back()->op, std::move(left), right);
    spine.pop_back();
  }
  return left;
}

Value Interp::eval_compare(const Expr* e, Activation& act) {
  Value left = eval(e->a, act);
  for (size_t i = 0; i < e->items.size(); ++i) {
    Value right = eval(e->items[i], act);
    if (!compare(*this, e->compares[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interp::eval_concat(const Expr* e, Activation& act) {
  Text out;
  for (const Expr* item : e->items) {
    Value value = eval(item, act);
    append_str(*this, out, value);
  }
  budget_.scan(out.size());
  return str(std::move(out));
}

Value Interp::eval_slice(const Expr* e, Activation& act) {
  Value object = eval(e->a, act);
  Value start = e->b == nullptr ? Value() : eval(e->b, act);
  Value stop = e->c == nullptr ? Value() : eval(e->c, act);
  Value step = e->d == nullptr ? Value() : eval(e->d, act);
  return get_slice(*this, object, start, stop, step);
}

void Interp::eval_args(const Expr* e, Activation& act, Args& args) {
  args.positional.reserve(e->items.size());
  for (const Expr* item : e->items) args.positional.push_back(eval(item, act));
  for (const auto& [name, value] : e->named) args.named.emplace_back(name, eval(value, act));
  if (e->star != nullptr) {
    for (Value& item : collect(eval(e->star, act))) args.positional.push_back(std::move(item));
  }
  if (e->star_star == nullptr) return;
  Value more = eval(e->star_star, act);
  if (!more.is(Kind::kDict)) fail("the argument after ** must be a mapping");
  for (const auto& [name, value] : more.dict().entries) {
    if (!name.is_str()) fail("keywords must be strings");
    for (const auto& [other, unused] : args.named) {
      if (other.text().bytes() == name.text().bytes()) fail("a keyword argument is given twice");
    }
    budget_.step();
    args.named.emplace_back(name, value);
  }
}

Value Interp::eval_call(const Expr* e, Activation& act, const Value& caller) {
  Value callee = eval(e->a, act);
  Args args;
  eval_args(e, act, args);
  if (!caller.is_missing()) args.named.emplace_back(str("caller"), caller);
  place_ = e->place;
  return call(callee, args);
}

// `input` stands for the operand of a filter block or a set block.
Value Interp::eval_filter(const Expr* e, Activation& act, const Value* input) {
  Value operand;
  if (e->a != nullptr) {
    // In a set block with several filters the innermost has no operand of its own.
    operand = input == nullptr ? eval(e->a, act) : eval_filter(e->a, act, input);
  } else if (input != nullptr) {
    operand = *input;
  }
  Args args;
  eval_args(e, act, args);
  place_ = e->place;
  if (e->filter == nullptr) fail(fmt::format("No filter named '{}'", e->name));
  return apply_filter(*this, *e->filter, operand, args);
}

Value Interp::eval_test(const Expr* e, Activation& act) {
  Value operand = eval(e->a, act);
  Args args;
  eval_args(e, act, args);
  place_ = e->place;
  if (e->test == nullptr) fail(fmt::format("No test named '{}'", e->name));
  return Value::boolean(e->test->apply(*this, operand, args));
}

Value Interp::eval_cond(const Expr* e, Activation& act) {
  if (truthy(eval(e->a, act))) return eval(e->b, act);
  if (e->c == nullptr) return Value::undefined();
  return eval(e->c, act);
}

}  // namespace ingot::jinja
