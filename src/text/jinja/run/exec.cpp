// The statements of the interpreter.
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"

namespace ingot::jinja {
namespace {

// The items of a loop that pass its `if`.
struct Filtered : Generator {
  Filtered(Interp& interp, Value source, const Stmt* s, Value a)
      : cursor(interp, std::move(source)), stmt(s), activation(std::move(a)) {}
  bool next(Interp& interp, Value& out) override {
    for (Value item; cursor.next(item);) {
      interp.budget().step();
      bool passed = false;
      Value kept = interp.run_test(stmt, activation.as<Activation>(), item, passed);
      if (!passed) continue;
      out = std::move(kept);
      return true;
    }
    return false;
  }

  Cursor cursor;
  const Stmt* stmt;
  Value activation;
};

// What a loop's target holds, as a value again.
Value target_value(Interp& interp, const Expr* target, const Activation& act) {
  if (target->op == Op::kName) return act.slots[target->ref.slot];
  std::vector<Value> items;
  for (const Expr* item : target->items) items.push_back(target_value(interp, item, act));
  return interp.tuple(std::move(items));
}

}  // namespace

// Sends the output of a piece of template into a str.
struct Interp::Capture {
  explicit Capture(Interp& i) : interp(i), outer(i.out_), outer_bytes(i.out_bytes_) {
    i.out_ = &text;
    i.out_bytes_ = 0;
  }
  Value finish() {
    interp.budget_.give(interp.out_bytes_);
    interp.out_ = outer;
    interp.out_bytes_ = outer_bytes;
    return interp.str(std::move(text));
  }
  Interp& interp;
  Text text;
  Text* outer;
  size_t outer_bytes;
};

Value& Interp::slot(Activation& act, Ref ref) {
  Activation* at = &act;
  for (uint16_t i = 0; i < ref.hops; ++i) at = &at->parent.as<Activation>();
  return at->slots[ref.slot];
}

void Interp::enter(const Frame& frame, Activation& act) {
  for (const Load& load : frame) {
    switch (load.action) {
      case Load::kParameter:
        break;
      case Load::kResolve:
        act.slots[load.slot] = variables_[load.name];
        break;
      case Load::kAlias:
        act.slots[load.slot] = slot(act, load.from);
        break;
      case Load::kUndefined:
        act.slots[load.slot] = Value();
        break;
    }
  }
}

void Interp::leave(const Frame& frame, Activation& act) {
  for (const Load& load : frame) act.slots[load.slot] = Value();
}

void Interp::write(const Text& text) {
  budget_.scan(text.size());
  budget_.take(text.size());
  out_bytes_ += text.size();
  out_->append(text);
}

void Interp::write(const Value& value) {
  if (value.is_str()) {
    write(value.text());
  } else {
    write(to_text(*this, value));
  }
}

Interp::Flow Interp::exec(const std::vector<Stmt*>& stmts, Activation& act) {
  for (const Stmt* stmt : stmts) {
    Flow flow = exec(stmt, act);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interp::Flow Interp::exec(const Stmt* stmt, Activation& act) {
  Deeper deeper(*this);
  budget_.step();
  place_ = stmt->place;
  switch (stmt->tag) {
    case Tag::kOutput:
      exec_output(stmt, act);
      break;
    case Tag::kFor:
      return exec_for(stmt, act);
    case Tag::kIf:
      return exec_if(stmt, act);
    case Tag::kSet:
      exec_set(stmt, act);
      break;
    case Tag::kSetBlock:
      return exec_set_block(stmt, act);
    case Tag::kMacro:
      slot(act, stmt->macro_ref) = make_macro(stmt->macro, act);
      break;
    case Tag::kCallBlock:
    case Tag::kGeneration:
      exec_call_block(stmt, act);
      break;
    case Tag::kFilterBlock:
      return exec_filter_block(stmt, act);
    case Tag::kWith:
      return exec_with(stmt, act);
    case Tag::kBreak:
      return Flow::kBreak;
    case Tag::kContinue:
      return Flow::kContinue;
    case Tag::kImport:
      fail("there are no other templates to load");
  }
  return Flow::kNormal;
}

void Interp::exec_output(const Stmt* stmt, Activation& act) {
  for (const Data& data : stmt->output) {
    if (data.expr == nullptr) {
      write(data.text);
    } else {
      write(eval(data.expr, act));
    }
  }
}

Interp::Flow Interp::exec_if(const Stmt* stmt, Activation& act) {
  if (truthy(eval(stmt->expr, act))) return exec(stmt->body, act);
  for (const Stmt* elif : stmt->elifs) {
    place_ = elif->place;
    if (truthy(eval(elif->expr, act))) return exec(elif->body, act);
  }
  return exec(stmt->orelse, act);
}

Interp::Flow Interp::exec_for(const Stmt* stmt, Activation& act) {
  Value iterable = eval(stmt->expr, act);
  if (!stmt->recursive) return exec_loop(stmt, act, std::move(iterable), Value(), 0);
  hold(act);
  write(recursive_loop(stmt, Value(&act), std::move(iterable), 0));
  return Flow::kNormal;
}

Value Interp::recursive_loop(const Stmt* stmt, const Value& outer, Value iterable, int64_t depth0) {
  Value activation(make<Activation>(outer, stmt->loop_routine.slots));
  Capture capture(*this);
  exec_loop(stmt, activation.as<Activation>(), std::move(iterable), outer, depth0);
  return capture.finish();
}

Value Interp::render_recursive(const Loop& loop, Value iterable) {
  Value outer = loop.outer;
  return recursive_loop(loop.stmt, outer, std::move(iterable), loop.depth0 + 1);
}

// `outer` is the activation around a recursive loop, else kMissing.
Interp::Flow Interp::exec_loop(const Stmt* stmt, Activation& act, Value iterable, const Value& outer, int64_t depth0) {
  if (stmt->test != nullptr) {
    Value parent = stmt->recursive ? outer : Value(&act);
    hold(parent.as<Activation>());  // the variable `loop` leads back to it: an error would leave a cycle behind
    Value activation(make<Activation>(parent, stmt->test_routine.slots));
    enter(stmt->test_frame, activation.as<Activation>());
    iterable = Value(make<Filtered>(*this, std::move(iterable), stmt, std::move(activation)));
  }
  Value loop;
  if (stmt->uses_loop) {
    loop = Value(make<Loop>(*this, std::move(iterable), stmt->recursive ? stmt : nullptr, outer, depth0));
  }
  Cursor cursor(*this, stmt->uses_loop ? Value::undefined() : std::move(iterable));
  bool completed = false;  // any turn that came to its end
  for (Value item; stmt->uses_loop ? loop.as<Loop>().next(item) : cursor.next(item);) {
    budget_.step();
    assign(stmt->target, act, item);
    if (stmt->uses_loop) act.slots[stmt->loop_slot] = loop;
    enter(stmt->frame, act);
    Flow flow = exec(stmt->body, act);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed = true;
  }
  leave(stmt->frame, act);
  return completed || stmt->orelse.empty() ? Flow::kNormal : loop_else(stmt, act);
}

Interp::Flow Interp::loop_else(const Stmt* stmt, Activation& act) {
  enter(stmt->else_frame, act);
  Flow flow = exec(stmt->orelse, act);
  leave(stmt->else_frame, act);
  return flow;
}

Value Interp::run_test(const Stmt* stmt, Activation& act, const Value& item, bool& passed) {
  assign(stmt->test_target, act, item);
  passed = truthy(eval(stmt->test, act));
  return passed ? target_value(*this, stmt->test_target, act) : Value();
}

void Interp::check_members(const Expr* target, Activation& act) {
  if (target->op == Op::kMember && !slot(act, target->ref).is(Kind::kNamespace)) {
    fail("cannot assign attribute on non-namespace object");
  }
  for (const Expr* item : target->items) check_members(item, act);
}

void Interp::exec_set(const Stmt* stmt, Activation& act) {
  check_members(stmt->target, act);
  assign(stmt->target, act, eval(stmt->expr, act));
}

void Interp::assign(const Expr* target, Activation& act, const Value& value) {
  if (target->op == Op::kName) {
    slot(act, target->ref) = value;
    return;
  }
  if (target->op == Op::kMember) {
    Value space = slot(act, target->ref);
    if (!space.is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
    if (target->value.text().bytes().starts_with("_")) fail("a namespace stores no names that begin with '_'");
    space.as<Dict>().set(target->value, value);
    return;
  }
  std::vector<Value> parts = collect(value);
  if (parts.size() != target->items.size()) {
    fail(fmt::format("{} values to unpack, expected {}", parts.size(), target->items.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) assign(target->items[i], act, parts[i]);
}

Interp::Flow Interp::exec_set_block(const Stmt* stmt, Activation& act) {
  enter(stmt->frame, act);
  Capture capture(*this);
  Flow flow = exec(stmt->body, act);
  Value text = capture.finish();
  if (flow == Flow::kNormal) {
    if (stmt->expr != nullptr) text = eval_filter(stmt->expr, act, &text);
    check_members(stmt->target, act);
    assign(stmt->target, act, text);
  }
  leave(stmt->frame, act);
  return flow;
}

Interp::Flow Interp::exec_filter_block(const Stmt* stmt, Activation& act) {
  enter(stmt->frame, act);
  Capture capture(*this);
  Flow flow = exec(stmt->body, act);
  Value text = capture.finish();
  if (flow == Flow::kNormal) write(eval_filter(stmt->expr, act, &text));
  leave(stmt->frame, act);
  return flow;
}

Interp::Flow Interp::exec_with(const Stmt* stmt, Activation& act) {
  enter(stmt->frame, act);
  for (size_t i = 0; i < stmt->targets.size(); ++i) {
    assign(stmt->targets[i], act, eval(stmt->values[i], act));
  }
  Flow flow = exec(stmt->body, act);
  leave(stmt->frame, act);
  return flow;
}

void Interp::exec_call_block(const Stmt* stmt, Activation& act) {
  Value caller = make_macro(stmt->macro, act);
  if (stmt->tag == Tag::kGeneration) {
    Args none;
    write(call(caller, none));
  } else {
    write(eval_call(stmt->expr, act, caller));
  }
}

}  // namespace ingot::jinja
