// The expression half of the parser.
#include "text/jinja/parse/parser_impl.h"
#include "text/jinja/run/filters.h"

namespace ingot::jinja {
namespace {

struct Infix {
  Tok token;
  Op op;
};

}  // namespace

Expr* Parser::expression(bool with_cond) {
  Nested nested(*this);
  return with_cond ? cond() : binary(0);
}

Expr* Parser::cond() {
  Place place = current().place;
  Expr* value = binary(0);
  while (skip_name("if")) {
    Expr* expr = node(Op::kCond, place);
    expr->b = value;
    expr->a = binary(0);
    if (skip_name("else")) {
      Nested nested(*this);
      expr->c = cond();
    }
    value = seal(expr);
    place = current().place;
  }
  return value;
}

// Level 0: or, 1: and, 2: not and comparisons, 3: + and -, 4: ~, 5: * / // %, 6: **. All associate to the left.
Expr* Parser::binary(int level) {
  static constexpr Infix kSums[] = {{Tok::kAdd, Op::kAdd}, {Tok::kSub, Op::kSub}};
  static constexpr Infix kProducts[] = {
      {Tok::kMul, Op::kMul}, {Tok::kDiv, Op::kDiv}, {Tok::kFloorDiv, Op::kFloorDiv}, {Tok::kMod, Op::kMod}};
  static constexpr Infix kPowers[] = {{Tok::kPow, Op::kPow}};
  if (level == 2) return logic_not();
  if (level == 4) return concat();
  Place place = current().place;
  Expr* left = level == 6 ? unary() : binary(level + 1);
  for (;;) {
    Op op = Op::kConst;
    if (level < 2) {
      if (at_name(level == 0 ? "or" : "and")) op = level == 0 ? Op::kOr : Op::kAnd;
    } else {
      const Infix* begin = level == 3 ? kSums : level == 5 ? kProducts : kPowers;
      const Infix* end = level == 3 ? std::end(kSums) : level == 5 ? std::end(kProducts) : std::end(kPowers);
      for (const Infix* i = begin; i != end; ++i) {
        if (at(i->token)) op = i->op;
      }
    }
    if (op == Op::kConst) return left;
    next();
    Expr* expr = node(op, place);
    expr->a = left;
    expr->b = level == 6 ? unary() : binary(level + 1);
    left = seal(expr);
    place = current().place;
  }
}

Expr* Parser::logic_not() {
  if (!at_name("not")) return compare();
  Nested nested(*this);
  Expr* expr = node(Op::kNot, next().place);
  expr->a = logic_not();
  return seal(expr);
}

Expr* Parser::compare() {
  static constexpr std::pair<Tok, Compare> kOperators[] = {{Tok::kEq, Compare::kEq}, {Tok::kNe, Compare::kNe},
                                                           {Tok::kLt, Compare::kLt}, {Tok::kLe, Compare::kLe},
                                                           {Tok::kGt, Compare::kGt}, {Tok::kGe, Compare::kGe}};
  Place place = current().place;
  Expr* first = binary(3);
  Expr* expr = nullptr;
  for (;;) {
    bool found = false;
    Compare op = Compare::kEq;
    for (const auto& [token, compare_op] : kOperators) {
      if (at(token)) found = true, op = compare_op;
    }
    if (!found && at_name("in")) found = true, op = Compare::kIn;
    if (!found && at_name("not") && look().is_name("in")) {
      next();
      found = true, op = Compare::kNotIn;
    }
    if (!found) break;
    next();
    if (expr == nullptr) {
      expr = node(Op::kCompare, place);
      expr->a = first;
    }
    expr->compares.push_back(op);
    expr->items.push_back(binary(3));
  }
  return expr == nullptr ? first : seal(expr);
}

Expr* Parser::concat() {
  Place place = current().place;
  Expr* first = binary(5);
  if (!at(Tok::kTilde)) return first;
  Expr* expr = node(Op::kConcat, place);
  expr->items.push_back(first);
  while (skip(Tok::kTilde)) expr->items.push_back(binary(5));
  return seal(expr);
}

Expr* Parser::unary(bool with_filter) {
  Expr* expr = nullptr;
  if (at(Tok::kSub) || at(Tok::kAdd)) {
    Nested nested(*this);
    const Token& sign = next();
    expr = node(sign.type == Tok::kSub ? Op::kNeg : Op::kPos, sign.place);
    expr->a = unary(false);
    seal(expr);
  } else {
    expr = primary();
  }
  expr = postfix(expr);
  return with_filter ? filters_and_tests(expr) : expr;
}

Expr* Parser::primary(bool with_member) {
  const Token& token = current();
  if (token.type == Tok::kName) {
    next();
    if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
      Expr* expr = node(Op::kConst, token.place);
      expr->value = Value::boolean(token.text == "true" || token.text == "True");
      return expr;
    }
    if (token.text == "none" || token.text == "None") {
      Expr* expr = node(Op::kConst, token.place);
      expr->value = Value::none();
      return expr;
    }
    if (!with_member || !skip(Tok::kDot)) return name_node(Op::kName, token);
    Expr* expr = name_node(Op::kMember, token);
    expr->value = program_.constant(expect(Tok::kName, "name").text);
    return expr;
  }
  if (token.type == Tok::kString) {
    Expr* expr = node(Op::kConst, token.place);
    std::string text;
    while (at(Tok::kString)) text += next().text;
    expr->value = program_.constant(std::move(text));
    return expr;
  }
  if (token.type == Tok::kInt || token.type == Tok::kFloat) {
    Expr* expr = node(Op::kConst, token.place);
    expr->value = token.type == Tok::kInt ? Value::integer(token.integer) : Value::real(token.real);
    next();
    return expr;
  }
  if (token.type == Tok::kLBracket) return list();
  if (token.type == Tok::kLBrace) return dict();
  if (token.type != Tok::kLParen) fail("unexpected " + describe(token), token.place);
  next();
  Expr* expr = tuple({.parentheses = true});
  expect(Tok::kRParen, ")");
  return expr;
}

bool Parser::tuple_end() const { return at(Tok::kPrintEnd) || at(Tok::kTagEnd) || at(Tok::kRParen); }

Expr* Parser::tuple(const TupleRules& rules) {
  Nested nested(*this);
  Place place = current().place;
  std::vector<Expr*> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect(Tok::kComma, ",");
    if (tuple_end()) break;
    items.push_back(rules.simplified ? primary(rules.with_member) : expression(rules.with_cond));
    if (!at(Tok::kComma)) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!rules.parentheses) fail("Expected an expression, got " + describe(current()));
  }
  Expr* expr = node(Op::kTuple, place);
  expr->items = std::move(items);
  return seal(expr);
}

Expr* Parser::list() {
  Expr* expr = node(Op::kList, expect(Tok::kLBracket, "[").place);
  while (!at(Tok::kRBracket)) {
    if (!expr->items.empty()) expect(Tok::kComma, ",");
    if (at(Tok::kRBracket)) break;
    expr->items.push_back(expression());
  }
  expect(Tok::kRBracket, "]");
  return seal(expr);
}

Expr* Parser::dict() {
  Expr* expr = node(Op::kDict, expect(Tok::kLBrace, "{").place);
  while (!at(Tok::kRBrace)) {
    if (!expr->items.empty()) expect(Tok::kComma, ",");
    if (at(Tok::kRBrace)) break;
    expr->items.push_back(expression());
    expect(Tok::kColon, ":");
    expr->items.push_back(expression());
  }
  expect(Tok::kRBrace, "}");
  return seal(expr);
}

Expr* Parser::postfix(Expr* expr) {
  for (;;) {
    if (at(Tok::kDot) || at(Tok::kLBracket)) {
      expr = subscript(expr);
    } else if (at(Tok::kLParen)) {
      expr = call(expr);
    } else {
      return expr;
    }
  }
}

Expr* Parser::filters_and_tests(Expr* expr) {
  for (;;) {
    if (at(Tok::kPipe)) {
      expr = filter(expr);
    } else if (at_name("is")) {
      expr = test(expr);
    } else if (at(Tok::kLParen)) {
      expr = call(expr);
    } else {
      return expr;
    }
  }
}

Expr* Parser::subscript(Expr* object) {
  const Token& token = next();
  Expr* expr = nullptr;
  if (token.type == Tok::kDot) {
    const Token& attr = next();
    if (attr.type == Tok::kName) {
      expr = name_node(Op::kAttr, attr);
    } else if (attr.type == Tok::kInt) {
      expr = node(Op::kItem, token.place);
      expr->b = node(Op::kConst, attr.place);
      expr->b->value = Value::integer(attr.integer);
    } else {
      fail("expected name or number", attr.place);
    }
    expr->a = object;
    return seal(expr);
  }
  std::vector<Expr*> args;
  while (!at(Tok::kRBracket)) {
    if (!args.empty()) expect(Tok::kComma, ",");
    args.push_back(subscribed());
  }
  expect(Tok::kRBracket, "]");
  if (args.size() == 1 && args[0]->op == Op::kSlice) {
    args[0]->a = object;
    return seal(args[0]);
  }
  expr = node(Op::kItem, token.place);
  expr->a = object;
  if (args.size() == 1) {
    expr->b = args[0];
  } else {
    expr->b = node(Op::kTuple, token.place);
    for (Expr* arg : args) {
      if (arg->op == Op::kSlice && arg->a == nullptr) fail("a slice among several indices", token.place);
    }
    expr->b->items = std::move(args);
    seal(expr->b);
  }
  return seal(expr);
}

Expr* Parser::subscribed() {
  Place place = current().place;
  Expr* start = at(Tok::kColon) ? nullptr : expression();
  if (!skip(Tok::kColon)) return start;
  Expr* expr = node(Op::kSlice, place);
  expr->b = start;
  if (!at(Tok::kColon) && !at(Tok::kRBracket) && !at(Tok::kComma)) expr->c = expression();
  if (skip(Tok::kColon) && !at(Tok::kRBracket) && !at(Tok::kComma)) expr->d = expression();
  return seal(expr);
}

Expr* Parser::call(Expr* callee) {
  Expr* expr = node(Op::kCall, callee->place);
  expr->a = callee;
  call_args(expr);
  return seal(expr);
}

void Parser::call_args(Expr* call_expr) {
  Place place = expect(Tok::kLParen, "(").place;
  bool first = true;
  while (!at(Tok::kRParen)) {
    if (!first) {
      expect(Tok::kComma, ",");
      if (at(Tok::kRParen)) break;
    }
    first = false;
    call_arg(call_expr, place);
  }
  expect(Tok::kRParen, ")");
}

void Parser::call_arg(Expr* e, Place place) {
  auto ensure = [&](bool ok) {
    if (!ok) fail("invalid syntax for function call expression", place);
  };
  if (skip(Tok::kMul)) {
    ensure(e->star == nullptr && e->star_star == nullptr);
    e->star = expression();
  } else if (skip(Tok::kPow)) {
    ensure(e->star_star == nullptr);
    e->star_star = expression();
  } else if (at(Tok::kName) && look().type == Tok::kAssign) {
    ensure(e->star_star == nullptr);
    const std::string& key = next().text;
    next();
    for (const auto& [name, value] : e->named) ensure(name.text().bytes() != key);
    e->named.emplace_back(program_.constant(key), expression());
  } else {
    ensure(e->star == nullptr && e->star_star == nullptr && e->named.empty());
    e->items.push_back(expression());
  }
}

std::string Parser::dotted_name() {
  std::string name = expect(Tok::kName, "name").text;
  while (skip(Tok::kDot)) name += "." + expect(Tok::kName, "name").text;
  return name;
}

Expr* Parser::filter(Expr* expr, bool inline_start) {
  while (at(Tok::kPipe) || inline_start) {
    if (!inline_start) next();
    inline_start = false;
    Expr* applied = node(Op::kFilter, current().place);
    applied->a = expr;
    applied->name = dotted_name();
    applied->filter = find_filter(applied->name);
    if (at(Tok::kLParen)) call_args(applied);
    expr = seal(applied);
  }
  return expr;
}

Expr* Parser::test(Expr* expr) {
  Place place = next().place;
  bool negated = skip_name("not");
  Expr* applied = node(Op::kTest, place);
  applied->a = expr;
  applied->name = dotted_name();
  applied->test = find_test(applied->name);
  bool literal =
      at(Tok::kName) || at(Tok::kString) || at(Tok::kInt) || at(Tok::kFloat) || at(Tok::kLBracket) || at(Tok::kLBrace);
  if (at(Tok::kLParen)) {
    call_args(applied);
  } else if (literal && !at_name("else") && !at_name("or") && !at_name("and")) {
    if (at_name("is")) fail("You cannot chain multiple tests with is");
    Nested nested(*this);
    applied->items.push_back(postfix(primary()));
  }
  seal(applied);
  if (!negated) return applied;
  Expr* inverse = node(Op::kNot, place);
  inverse->a = applied;
  return seal(inverse);
}

}  // namespace ingot::jinja
