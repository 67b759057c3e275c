// The statement half of the parser.
#include "text/jinja/parse/parser.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/parse/parser_impl.h"
#include "text/jinja/parse/scope.h"

namespace ingot::jinja {

Expr* Program::new_expr(Op op, Place place) {
  exprs_.push_back(std::make_unique<Expr>());
  exprs_.back()->op = op;
  exprs_.back()->place = place;
  return exprs_.back().get();
}

Stmt* Program::new_stmt(Tag tag, Place place) {
  stmts_.push_back(std::make_unique<Stmt>());
  stmts_.back()->tag = tag;
  stmts_.back()->place = place;
  return stmts_.back().get();
}

MacroDef* Program::new_macro() {
  macros_.push_back(std::make_unique<MacroDef>());
  return macros_.back().get();
}

Value Program::constant(std::string text) {
  strings_.push_back(std::make_unique<Str>(Text(std::move(text), true)));
  Str* str = strings_.back().get();
  str->length();
  str->refs = Obj::kImmortal;
  return Value(str);
}

Parser::Nested::Nested(Parser& p) : parser(p) {
  if (++p.depth_ > kMaxDepth) {
    --p.depth_;
    p.fail("expressions or blocks are nested too deeply");
  }
}

const Token& Parser::next() {
  const Token& token = tokens_[pos_];
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return token;
}

bool Parser::skip(Tok type) {
  if (!at(type)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  next();
  return true;
}

const Token& Parser::expect(Tok type, std::string_view what) {
  if (!at(type)) fail(fmt::format("expected '{}', got {}", what, describe(current())));
  return next();
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(fmt::format("expected '{}', got {}", name, describe(current())));
}

void Parser::fail(std::string_view what, Place place) const {
  fail_at(place.line != 0 ? place : current().place, what);
}

std::string Parser::describe(const Token& token) {
  if (token.type == Tok::kEof) return "end of template";
  if (token.type == Tok::kString) return "string";
  return "'" + utf8_printable(token.text, 40) + "'";
}

Expr* Parser::name_node(Op op, const Token& token) {
  Expr* expr = node(op, token.place);
  expr->name = token.text;
  expr->value = program_.constant(token.text);
  return expr;
}

Expr* Parser::seal(Expr* e) {
  uint32_t deepest = 0;
  for (const Expr* part : {e->a, e->b, e->c, e->d, e->star, e->star_star}) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  }
  for (const Expr* item : e->items) deepest = std::max(deepest, item->depth);
  for (const auto& [name, value] : e->named) deepest = std::max(deepest, value->depth);
  e->depth = deepest + 1;
  if (e->depth > kMaxTree) fail("an expression has too many parts");
  return e;
}

void Parser::flush(std::vector<Stmt*>& out) {
  if (data_.empty()) return;
  Stmt* stmt = program_.new_stmt(Tag::kOutput, data_place_);
  stmt->output = std::move(data_);
  data_.clear();
  out.push_back(stmt);
}

std::vector<Stmt*> Parser::subparse(std::initializer_list<std::string_view> ends) {
  Nested nested(*this);
  std::vector<Stmt*> out;
  while (!at(Tok::kEof)) {
    const Token& token = current();
    if (data_.empty()) data_place_ = token.place;
    if (token.type == Tok::kData) {
      data_.push_back({Text(token.text, true), nullptr});
      next();
    } else if (token.type == Tok::kPrintBegin) {
      next();
      Expr* expr = tuple({});
      expect(Tok::kPrintEnd, "}}");
      data_.push_back({Text(), expr});
    } else {  // the lexer gives nothing else here than a tag
      flush(out);
      next();
      for (std::string_view end : ends) {
        if (at_name(end)) return out;
      }
      out.push_back(statement());
      expect(Tok::kTagEnd, "%}");
    }
  }
  flush(out);
  return out;
}

std::vector<Stmt*> Parser::body(std::initializer_list<std::string_view> ends, bool drop_end) {
  skip(Tok::kColon);
  expect(Tok::kTagEnd, "%}");
  std::vector<Stmt*> out = subparse(ends);
  if (at(Tok::kEof)) fail(fmt::format("Unexpected end of template: '{}' is missing", *ends.begin()));
  if (drop_end) next();
  return out;
}

Stmt* Parser::statement() {
  const Token& token = current();
  if (token.type != Tok::kName) fail("tag name expected", token.place);
  const std::string& tag = token.text;
  if (tag == "for") return for_loop();
  if (tag == "if") return if_block();
  if (tag == "set") return set();
  if (tag == "macro") return macro();
  if (tag == "call") return call_block();
  if (tag == "generation") return generation();
  if (tag == "filter") return filter_block();
  if (tag == "with") return with();
  if (tag == "print") return print();
  if (tag == "break" || tag == "continue") {
    return program_.new_stmt(tag == "break" ? Tag::kBreak : Tag::kContinue, next().place);
  }
  if (tag == "extends" || tag == "include" || tag == "import" || tag == "from") return import();
  if (tag == "block" || tag == "autoescape") fail("the tag '" + tag + "' is not supported");
  fail("Encountered unknown tag '" + utf8_printable(tag, 40) + "'");
}

Stmt* Parser::for_loop() {
  Stmt* stmt = program_.new_stmt(Tag::kFor, next().place);
  stmt->target = target();
  expect_name("in");
  stmt->expr = tuple({.with_cond = false});
  if (skip_name("if")) stmt->test = expression();
  stmt->recursive = skip_name("recursive");
  stmt->body = body({"endfor", "else"}, false);
  if (next().text == "endfor") return stmt;
  stmt->orelse = body({"endfor"}, true);
  return stmt;
}

Stmt* Parser::if_block() {
  Stmt* first = program_.new_stmt(Tag::kIf, next().place);
  Stmt* stmt = first;
  for (;;) {
    stmt->expr = tuple({.with_cond = false});
    stmt->body = body({"elif", "else", "endif"}, false);
    const Token& end = next();
    if (end.text == "elif") {
      stmt = program_.new_stmt(Tag::kIf, current().place);
      first->elifs.push_back(stmt);
      continue;
    }
    if (end.text == "else") first->orelse = body({"endif"}, true);
    return first;
  }
}

Stmt* Parser::set() {
  Place place = next().place;
  Expr* to = target(true);
  if (skip(Tok::kAssign)) {
    Stmt* stmt = program_.new_stmt(Tag::kSet, place);
    stmt->target = to;
    stmt->expr = tuple({});
    return stmt;
  }
  Stmt* stmt = program_.new_stmt(Tag::kSetBlock, place);
  stmt->target = to;
  stmt->expr = filter(nullptr);
  stmt->body = body({"endset"}, true);
  return stmt;
}

void Parser::signature(MacroDef* def) {
  expect(Tok::kLParen, "(");
  bool fallbacks = false;
  while (!at(Tok::kRParen)) {
    if (!def->params.empty()) expect(Tok::kComma, ",");
    Param param;
    param.name = name_target()->name;
    for (const Param& other : def->params) {
      if (other.name == param.name) fail("duplicate argument '" + param.name + "'");
    }
    if (skip(Tok::kAssign)) {
      param.fallback = expression();
      fallbacks = true;
    } else if (fallbacks) {
      fail("non-default argument follows default argument");
    }
    def->params.push_back(std::move(param));
  }
  expect(Tok::kRParen, ")");
}

Stmt* Parser::macro() {
  Stmt* stmt = program_.new_stmt(Tag::kMacro, next().place);
  stmt->macro = program_.new_macro();
  stmt->macro->place = stmt->place;
  stmt->macro->name = name_target()->name;
  signature(stmt->macro);
  stmt->macro->body = body({"endmacro"}, true);
  return stmt;
}

Stmt* Parser::call_block() {
  Stmt* stmt = program_.new_stmt(Tag::kCallBlock, next().place);
  stmt->macro = program_.new_macro();
  stmt->macro->place = stmt->place;
  if (at(Tok::kLParen)) signature(stmt->macro);
  stmt->expr = expression();
  if (stmt->expr->op != Op::kCall) fail("expected call", stmt->place);
  for (const auto& [name, value] : stmt->expr->named) {
    if (name.text().bytes() == "caller") fail("keyword argument repeated: caller", stmt->place);
  }
  stmt->macro->body = body({"endcall"}, true);
  return stmt;
}

Stmt* Parser::generation() {
  Stmt* stmt = program_.new_stmt(Tag::kGeneration, next().place);
  stmt->macro = program_.new_macro();
  stmt->macro->place = stmt->place;
  stmt->macro->body = body({"endgeneration"}, true);
  return stmt;
}

Stmt* Parser::filter_block() {
  Stmt* stmt = program_.new_stmt(Tag::kFilterBlock, next().place);
  stmt->expr = filter(nullptr, true);
  stmt->body = body({"endfilter"}, true);
  return stmt;
}

Stmt* Parser::with() {
  Stmt* stmt = program_.new_stmt(Tag::kWith, next().place);
  while (!at(Tok::kTagEnd)) {
    if (!stmt->targets.empty()) expect(Tok::kComma, ",");
    stmt->targets.push_back(target());
    expect(Tok::kAssign, "=");
    stmt->values.push_back(expression());
  }
  stmt->body = body({"endwith"}, true);
  return stmt;
}

Stmt* Parser::print() {
  Stmt* stmt = program_.new_stmt(Tag::kOutput, next().place);
  while (!at(Tok::kTagEnd)) {
    if (!stmt->output.empty()) expect(Tok::kComma, ",");
    stmt->output.push_back({Text(), expression()});
  }
  return stmt;
}

// There is nothing to import from, so these fail once they are reached, but the rest of the template stays usable.
Stmt* Parser::import() {
  const Token& token = next();
  Stmt* stmt = program_.new_stmt(Tag::kImport, token.place);
  stmt->expr = expression();
  if (token.text == "include" && at_name("ignore") && look().is_name("missing")) {
    next();
    next();
  }
  if (token.text == "import") {
    expect_name("as");
    stmt->targets.push_back(name_target());
  }
  if (token.text == "from") {
    expect_name("import");
    import_names(stmt);
  }
  if ((at_name("with") || at_name("without")) && look().is_name("context")) {
    next();
    next();
  }
  return stmt;
}

void Parser::import_names(Stmt* stmt) {
  for (;;) {
    if ((at_name("with") || at_name("without")) && look().is_name("context")) return;
    Expr* name = name_target();
    if (name->name.starts_with("_")) fail("names starting with an underline can not be imported");
    stmt->targets.push_back(skip_name("as") ? name_target() : name);
    if (!skip(Tok::kComma)) return;
  }
}

Expr* Parser::name_target() {
  Expr* expr = name_node(Op::kName, expect(Tok::kName, "name"));
  expr->store = true;
  check_target(expr);
  return expr;
}

Expr* Parser::target(bool with_member) {
  Expr* expr = tuple({.simplified = true, .with_member = with_member});
  check_target(expr);
  return expr;
}

void Parser::check_target(Expr* expr) {
  static constexpr std::string_view kFixed[] = {"true", "false", "none", "True", "False", "None"};
  expr->store = true;
  if (expr->op == Op::kMember) return;
  if (expr->op == Op::kTuple) {
    for (Expr* item : expr->items) check_target(item);
    return;
  }
  bool fixed = std::find(std::begin(kFixed), std::end(kFixed), expr->name) != std::end(kFixed);
  if (expr->op != Op::kName || fixed) fail("can't assign to an expression", expr->place);
}

void Parser::parse() { program_.body = subparse({}); }

std::unique_ptr<Program> parse_program(std::string_view source) {
  auto program = std::make_unique<Program>();
  Parser(tokenize(source), *program).parse();
  resolve_names(*program);
  return program;
}

}  // namespace ingot::jinja
