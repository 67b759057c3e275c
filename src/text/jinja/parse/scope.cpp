#include "text/jinja/parse/scope.h"

#include "text/jinja/parse/symbols.h"
#include "text/jinja/run/filters.h"

namespace ingot::jinja {
namespace {

struct Context {
  const Scope* scope;
  Slots* slots;
  bool soft = false;     // inside `if`: an unknown filter is an error only when it is reached
  bool in_loop = false;  // `break` has something to leave

  Context inner(const Scope& s) const { return {&s, slots, false, in_loop}; }
};

class Resolver {
 public:
  explicit Resolver(Program& program) : program_(program), table_{program.names, {}, 0} {}

  void run() {
    Slots slots{&program_.routine, {}};
    Scope scope(table_, &slots, nullptr);
    scope.visit(program_.body);
    block(program_.body, {&scope, &slots});
    program_.frame = scope.frame(program_.routine);
  }

 private:
  void block(const std::vector<Stmt*>& stmts, const Context& cx) {
    for (Stmt* s : stmts) stmt(s, cx);
  }

  void stmt(Stmt* s, const Context& cx) {
    switch (s->tag) {
      case Tag::kOutput:
        for (Data& data : s->output) expr(data.expr, cx);
        break;
      case Tag::kFor:
        for_loop(s, cx);
        break;
      case Tag::kIf:
        if_block(s, cx);
        break;
      case Tag::kSet:
        expr(s->target, cx);
        expr(s->expr, cx);
        break;
      case Tag::kSetBlock:
        set_block(s, cx);
        break;
      case Tag::kMacro:
        macro(s->macro, cx);
        s->macro_ref = ref(s->macro->name, s->place, cx);
        break;
      case Tag::kCallBlock:
        macro(s->macro, cx);
        expr(s->expr, cx);
        break;
      case Tag::kGeneration:
        macro(s->macro, cx);
        break;
      case Tag::kFilterBlock:
        filter_block(s, cx);
        break;
      case Tag::kWith:
        with(s, cx);
        break;
      case Tag::kBreak:
      case Tag::kContinue:
        if (!cx.in_loop) fail("'break' or 'continue' outside a loop", s->place);
        break;
      case Tag::kImport:
        expr(s->expr, cx);
        break;
    }
  }

  void if_block(Stmt* s, Context cx) {
    cx.soft = true;
    expr(s->expr, cx);
    block(s->body, cx);
    for (Stmt* elif : s->elifs) {
      expr(elif->expr, cx);
      block(elif->body, cx);
    }
    block(s->orelse, cx);
  }

  void set_block(Stmt* s, const Context& cx) {
    Scope scope(table_, cx.slots, cx.scope);
    scope.visit(s->body);
    block(s->body, cx.inner(scope));
    expr(s->expr, cx.inner(scope));
    expr(s->target, cx);
    s->frame = scope.frame(*cx.slots->routine);
  }

  void filter_block(Stmt* s, const Context& cx) {
    Scope scope(table_, cx.slots, cx.scope);
    scope.visit(s->body);
    scope.visit(s->expr);
    block(s->body, cx.inner(scope));
    expr(s->expr, cx.inner(scope));
    s->frame = scope.frame(*cx.slots->routine);
  }

  void with(Stmt* s, const Context& cx) {
    Scope scope(table_, cx.slots, cx.scope);
    for (Expr* target : s->targets) scope.declare_target(target);
    scope.visit(s->body);
    for (Expr* value : s->values) expr(value, cx);
    for (Expr* target : s->targets) expr(target, cx.inner(scope));
    block(s->body, cx.inner(scope));
    s->frame = scope.frame(*cx.slots->routine);
  }

  void for_loop(Stmt* s, const Context& cx) {
    expr(s->expr, cx);
    if (assigns(s, "loop")) fail("Can't assign to special loop variable in for-loop target", s->place);
    s->uses_loop = s->recursive || undeclared(s->body, {"loop"}).count("loop") != 0;
    if (s->test != nullptr) loop_test(s, cx);

    s->loop_routine.level = cx.slots->routine->level + 1;
    Slots own{&s->loop_routine, {}};
    Context outer = cx;
    outer.soft = false;
    if (s->recursive) {
      outer.slots = &own;
      outer.in_loop = false;
    }
    Scope scope(table_, outer.slots, cx.scope);
    if (s->uses_loop) s->loop_slot = scope.declare_parameter("loop");
    scope.declare_target(s->target);
    scope.visit(s->body);
    Context inner = outer.inner(scope);
    inner.in_loop = true;
    expr(s->target, inner);
    block(s->body, inner);
    s->frame = scope.frame(*outer.slots->routine);

    Scope else_scope(table_, outer.slots, cx.scope);
    else_scope.visit(s->orelse);
    block(s->orelse, outer.inner(else_scope));
    s->else_frame = else_scope.frame(*outer.slots->routine);
  }

  void loop_test(Stmt* s, const Context& cx) {
    s->test_routine.level = cx.slots->routine->level + 1;
    // In a recursive loop the test is defined outside the loop's own routine, as the loop's target is.
    Slots own{&s->test_routine, {}};
    Scope scope(table_, &own, cx.scope);
    scope.declare_target(s->target);
    scope.visit(s->test);
    Context inner{&scope, &own};
    s->test_target = clone_target(s->target);
    expr(s->test_target, inner);
    expr(s->test, inner);
    s->test_frame = scope.frame(s->test_routine);
  }

  Expr* clone_target(const Expr* target) {
    Expr* copy = program_.new_expr(target->op, target->place);
    copy->name = target->name;
    copy->value = target->value;
    copy->store = true;
    for (const Expr* item : target->items) copy->items.push_back(clone_target(item));
    return copy;
  }

  void macro(MacroDef* def, const Context& cx) {
    def->routine.level = cx.slots->routine->level + 1;
    Slots own{&def->routine, {}};
    Scope scope(table_, &own, cx.scope);
    std::set<std::string> special = undeclared(def->body, {"caller", "kwargs", "varargs"});
    for (Param& param : def->params) {
      param.slot = scope.declare_parameter(param.name);
      if (param.name == "caller") {
        def->explicit_caller = true;
        if (special.count("caller") != 0 && param.fallback == nullptr) {
          fail("the special \"caller\" argument must be omitted or be given a default", def->place);
        }
      }
      if (param.name == "kwargs" || param.name == "varargs") special.erase(param.name);
    }
    auto declare = [&](const char* name) {
      if (special.count(name) == 0) return -1;
      const Ident* known = scope.find(name);
      if (known != nullptr && known->owner == &own) return static_cast<int>(known->slot);
      return static_cast<int>(scope.declare_parameter(name));
    };
    def->caller = declare("caller");
    def->kwargs = declare("kwargs");
    def->varargs = declare("varargs");
    for (Param& param : def->params) scope.visit(param.fallback);
    scope.visit(def->body);
    Context inner{&scope, &own};
    for (Param& param : def->params) expr(param.fallback, inner);
    block(def->body, inner);
    def->frame = scope.frame(def->routine);
  }

  void expr(Expr* e, const Context& cx) {
    if (e == nullptr) return;
    if (e->op == Op::kName || e->op == Op::kMember) e->ref = ref(e->name, e->place, cx);
    if (!cx.soft) check_names(e);
    Context inside = cx;
    inside.soft = cx.soft || e->op == Op::kCond;
    for (Expr* part : {e->a, e->b, e->c, e->d}) expr(part, inside);
    for (Expr* item : e->items) expr(item, inside);
    for (auto& [name, value] : e->named) expr(value, inside);
    expr(e->star, inside);
    expr(e->star_star, inside);
  }

  static void check_names(const Expr* e) {
    if (e->op == Op::kTest && e->test == nullptr) fail("No test named '" + e->name + "'", e->place);
    if (e->op != Op::kFilter) return;
    if (e->filter == nullptr) fail("No filter named '" + e->name + "'", e->place);
    if (e->filter->apply == nullptr) fail("the filter '" + e->name + "' is not supported", e->place);
  }

  Ref ref(const std::string& name, Place place, const Context& cx) {
    const Ident* ident = cx.scope->find(name);
    if (ident == nullptr) fail("the name '" + name + "' is not known here", place);
    return make_ref(*ident, *cx.slots->routine);
  }

  [[noreturn]] static void fail(const std::string& what, Place place) { fail_at(place, what); }

  Program& program_;
  NameTable table_;
};

}  // namespace

void resolve_names(Program& program) { Resolver(program).run(); }

}  // namespace ingot::jinja
