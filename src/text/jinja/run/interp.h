// Runs a Program over its input. One Interp is one render, on one thread.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/parse/ast.h"
#include "text/jinja/value/value.h"

namespace ingot::jinja {

// The variables of one running Routine. Macros hold the activation that they were defined in.
struct Activation : Obj {
  Activation(Value p, size_t n) : Obj(Kind::kActivation), parent(std::move(p)), slots(n) {}
  void unlink() override { slots.assign(slots.size(), Value()); }
  Value parent;
  std::vector<Value> slots;
  bool kept = false;  // until the render ends: a macro may make it part of a cycle
};

struct Macro : Obj {
  Macro(const MacroDef* d, Value a) : Obj(Kind::kMacro), def(d), activation(std::move(a)) {}
  const MacroDef* def;
  Value activation;
};

// Goes over anything that can be iterated. Error when `source` cannot.
class Cursor {
 public:
  Cursor(Interp& interp, Value source);
  bool next(Value& out);
  const Value& source() const { return source_; }

 private:
  Interp* interp_;
  Value source_;
  size_t at_ = 0;
};

// The variable `loop`.
struct Loop : Obj {
  Loop(Interp& interp, Value iterable, const Stmt* recursive_stmt, Value outer_activation, int64_t depth_from_0)
      : Obj(Kind::kLoop),
        cursor(interp, std::move(iterable)),
        stmt(recursive_stmt),
        outer(std::move(outer_activation)),
        depth0(depth_from_0) {}
  void unlink() override;
  bool next(Value& out);
  const Value& peek();  // kMissing at the end
  int64_t length(Interp& interp);

  Cursor cursor;
  const Stmt* stmt;  // of a recursive loop
  Value outer;       // the activation around a recursive loop
  int64_t depth0;
  int64_t index0 = -1;
  int64_t known_length = -1;
  Value before, now, after, last_changed;
};

class Interp {
 public:
  Interp(const Program& program, Budget& budget, std::optional<std::time_t> now);
  ~Interp();
  Interp(const Interp&) = delete;
  Interp& operator=(const Interp&) = delete;

  // The variable names[i] of the program; a builtin of that name stands where none is set.
  void set_variable(size_t i, Value value) { variables_[i] = std::move(value); }
  Text run();

  Budget& budget() { return budget_; }
  std::optional<std::time_t> now() const { return now_; }
  [[noreturn]] void fail(std::string_view what) const;
  // "'x' is undefined" and the like. REQUIRES: value.is_undefined().
  [[noreturn]] void fail_undefined(const Value& value) const;

  // Making values.
  Value str(Text text);
  Value str(std::string_view text) { return str(Text(std::string(text), true)); }  // written by the template
  Value list(std::vector<Value> items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::kTuple, std::move(items)); }
  Value function(std::string_view name, Callee callee, Value self = Value());
  template <class T, class... Args>
  T* make(Args&&... args) {
    budget_.take(sizeof(T));
    T* obj = new T(std::forward<Args>(args)...);
    obj->budget = &budget_;
    obj->bytes = sizeof(T);
    return obj;
  }
  Dict* new_dict() { return make<Dict>(); }
  // A namespace, or another object that can be changed later, is unlinked when the render ends.
  Value keep(Value value);

  Value call(const Value& callee, Args& args);
  Value render_recursive(const Loop& loop, Value iterable);
  Value run_test(const Stmt* stmt, Activation& activation, const Value& item, bool& passed);
  // Everything that can be iterated, as a list.
  std::vector<Value> collect(const Value& source);

  // Counts nested evaluations. A level takes at most about 1 KiB of stack: 600 of them fit in 1 MiB with room to spare.
  static constexpr int kMaxDepth = 600;
  struct Deeper {
    explicit Deeper(Interp& i) : interp(i) {
      if (++i.depth_ > kMaxDepth) i.too_deep();
    }
    ~Deeper() { --interp.depth_; }
    Interp& interp;
  };

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };

  [[noreturn]] void too_deep();
  Value sequence(Kind kind, std::vector<Value> items);
  Value& slot(Activation& act, Ref ref);

  // Statements.
  Flow exec(const std::vector<Stmt*>& stmts, Activation& act);
  Flow exec(const Stmt* stmt, Activation& act);
  Flow exec_if(const Stmt* stmt, Activation& act);
  Flow exec_for(const Stmt* stmt, Activation& act);
  Flow exec_loop(const Stmt* stmt, Activation& act, Value iterable, const Value& outer, int64_t depth0);
  Flow loop_else(const Stmt* stmt, Activation& act);
  Value recursive_loop(const Stmt* stmt, const Value& outer, Value iterable, int64_t depth0);
  Flow exec_with(const Stmt* stmt, Activation& act);
  Flow exec_set_block(const Stmt* stmt, Activation& act);
  Flow exec_filter_block(const Stmt* stmt, Activation& act);
  void exec_output(const Stmt* stmt, Activation& act);
  void exec_set(const Stmt* stmt, Activation& act);
  void exec_call_block(const Stmt* stmt, Activation& act);
  void check_members(const Expr* target, Activation& act);
  void assign(const Expr* target, Activation& act, const Value& value);
  void enter(const Frame& frame, Activation& act);
  void leave(const Frame& frame, Activation& act);
  void hold(Activation& act);  // until the render ends, when it is unlinked
  Value make_macro(const MacroDef* def, Activation& act);
  Value call_macro(const Macro& macro, Args& args);
  void bind_macro(const Macro& macro, Args& args, Activation& act);
  void macro_extras(const Macro& macro, Args& args, Activation& act);

  // Expressions.
  Value eval(const Expr* e, Activation& act);
  Value eval_container(const Expr* e, Activation& act);
  Value eval_chain(const Expr* e, Activation& act);
  Value eval_compare(const Expr* e, Activation& act);
  Value eval_concat(const Expr* e, Activation& act);
  Value eval_slice(const Expr* e, Activation& act);
  Value eval_call(const Expr* e, Activation& act, const Value& caller);
  Value eval_filter(const Expr* e, Activation& act, const Value* input);
  Value eval_test(const Expr* e, Activation& act);
  Value eval_cond(const Expr* e, Activation& act);
  void eval_args(const Expr* e, Activation& act, Args& args);

  // Output.
  void write(const Text& text);
  void write(const Value& value);
  struct Capture;

  const Program& program_;
  Budget& budget_;
  std::optional<std::time_t> now_;
  std::vector<Value> variables_;
  std::vector<Value> kept_;
  Text* out_ = nullptr;
  size_t out_bytes_ = 0;  // taken from the budget for *out_
  int depth_ = 0;
  Place place_;
};

}  // namespace ingot::jinja
