// The parser's state, shared by its expression half and its statement half.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace ingot::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}
  void parse();

 private:
  // Nested expressions and blocks together. Published templates reach 30; 200 levels take about 200 KiB of stack.
  static constexpr int kMaxDepth = 200;
  // Of an expression's tree: a chain of 300 operators needs no recursion to parse, but to evaluate.
  static constexpr uint32_t kMaxTree = 300;
  struct Nested {
    explicit Nested(Parser& p);
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  // Tokens.
  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  const Token& next();
  bool at(Tok type) const { return current().type == type; }
  bool at_name(std::string_view name) const { return current().is_name(name); }
  bool skip(Tok type);
  bool skip_name(std::string_view name);
  const Token& expect(Tok type, std::string_view what);
  void expect_name(std::string_view name);
  [[noreturn]] void fail(std::string_view what, Place place = {}) const;
  static std::string describe(const Token& token);

  // Nodes.
  Expr* node(Op op, Place place) { return program_.new_expr(op, place); }
  Expr* name_node(Op op, const Token& token);
  Expr* seal(Expr* expr);  // counts the depth of its tree

  // Expressions.
  Expr* expression(bool with_cond = true);
  Expr* cond();
  Expr* binary(int level);
  Expr* logic_not();
  Expr* compare();
  Expr* concat();
  Expr* unary(bool with_filter = true);
  Expr* primary(bool with_member = false);
  Expr* postfix(Expr* expr);
  Expr* filters_and_tests(Expr* expr);
  Expr* filter(Expr* expr, bool inline_start = false);
  Expr* test(Expr* expr);
  Expr* subscript(Expr* expr);
  Expr* subscribed();
  Expr* call(Expr* callee);
  void call_args(Expr* call);
  void call_arg(Expr* call, Place place);
  std::string dotted_name();
  Expr* list();
  Expr* dict();
  struct TupleRules {
    bool simplified = false;  // names and literals only
    bool with_cond = true;
    bool parentheses = false;
    bool with_member = false;
  };
  Expr* tuple(const TupleRules& rules);
  bool tuple_end() const;

  // Statements.
  std::vector<Stmt*> subparse(std::initializer_list<std::string_view> ends);
  std::vector<Stmt*> body(std::initializer_list<std::string_view> ends, bool drop_end);
  void flush(std::vector<Stmt*>& out);
  void add_data(const Token& token);
  Stmt* statement();
  Stmt* for_loop();
  Stmt* if_block();
  Stmt* set();
  Stmt* macro();
  Stmt* call_block();
  Stmt* generation();
  Stmt* filter_block();
  Stmt* with();
  Stmt* print();
  Stmt* import();
  void import_names(Stmt* stmt);
  void signature(MacroDef* macro);
  Expr* target(bool with_member = false);
  Expr* name_target();
  void check_target(Expr* expr);

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
  Program& program_;
  std::vector<Data> data_;  // output that waits to become a statement
  Place data_place_;
};

}  // namespace ingot::jinja
