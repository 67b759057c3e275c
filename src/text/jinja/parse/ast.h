// A parsed template. All nodes lie in the Program's own lists, so that freeing it needs no recursion.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/parse/place.h"
#include "text/jinja/value/value.h"

namespace ingot::jinja {

struct FilterDef;
struct TestDef;

enum class Op : uint8_t {
  kConst,
  kName,
  kMember,  // the target `a.b` of an assignment
  kTuple,
  kList,
  kDict,
  kAttr,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kConcat,
  kCompare,
  kAnd,
  kOr,
  kNot,
  kNeg,
  kPos,
  kCond,
};

enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

// A variable: the slot in the activation that is `hops` functions outside the current one.
struct Ref {
  uint16_t hops = 0;
  uint16_t slot = 0;
};

struct Expr {
  Op op = Op::kConst;
  Place place;
  uint32_t depth = 1;        // of the tree below
  bool store = false;        // kName, kTuple: an assignment target
  Expr* a = nullptr;         // operand, left side, object; the test of kCond
  Expr* b = nullptr;         // right side, index, slice start; the value of kCond when true
  Expr* c = nullptr;         // slice stop; the value of kCond when false, or none
  Expr* d = nullptr;         // slice step
  std::vector<Expr*> items;  // elements, arguments, operands; keys and values in turn
  std::vector<Compare> compares;
  std::vector<std::pair<Value, Expr*>> named;  // keyword arguments
  Expr* star = nullptr;                        // *args
  Expr* star_star = nullptr;                   // **kwargs
  Value value;                                 // the constant; the name of a variable, attribute, filter or test
  std::string name;                            // the same name
  Ref ref;                                     // kName, kMember
  const FilterDef* filter = nullptr;           // none: unknown, an error once it is reached
  const TestDef* test = nullptr;
};

// What happens to a variable when its scope is entered.
struct Load {
  enum Action : uint8_t { kParameter, kResolve, kAlias, kUndefined };
  Action action = kParameter;
  uint16_t slot = 0;
  Ref from;           // kAlias
  uint32_t name = 0;  // kResolve: which of Program::names
};
using Frame = std::vector<Load>;

struct Stmt;

// A piece of template that runs with variables of its own: the template itself, a macro, a call block, a recursive
// loop, the `if` of a loop.
struct Routine {
  int level = 0;  // routines around it
  uint16_t slots = 0;
};

struct Param {
  std::string name;
  uint16_t slot = 0;
  Expr* fallback = nullptr;
};

struct MacroDef {
  std::string name;  // empty: a call block
  Place place;
  std::vector<Param> params;
  std::vector<Stmt*> body;
  Routine routine;
  Frame frame;
  // The slots of the names that the body uses without declaring them, or -1.
  int caller = -1, kwargs = -1, varargs = -1;
  bool explicit_caller = false;
};

enum class Tag : uint8_t {
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kGeneration,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
  kImport,  // extends, include, import, from: there is nothing to load from
};

struct Data {
  Text text;  // when `expr` is none
  Expr* expr = nullptr;
};

struct Stmt {
  Tag tag = Tag::kOutput;
  Place place;
  Expr* target = nullptr;       // for, set
  Expr* expr = nullptr;         // iterable, test, value, call, filter, name of what is to be imported
  Expr* test = nullptr;         // the `if` of a loop
  Expr* test_target = nullptr;  // the loop's target once more, in the variables of the test
  bool recursive = false;
  bool uses_loop = false;
  std::vector<Stmt*> body;
  std::vector<Stmt*> elifs;  // kIf statements without branches of their own
  std::vector<Stmt*> orelse;
  std::vector<Data> output;
  std::vector<Expr*> targets, values;  // with; names that an import would set
  MacroDef* macro = nullptr;
  Frame frame, else_frame, test_frame;
  Routine loop_routine, test_routine;
  uint16_t loop_slot = 0;
  Ref macro_ref;  // where the macro is stored
};

struct Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::vector<Stmt*> body;
  Routine routine;
  Frame frame;
  std::vector<std::string> names;  // of the variables that are looked up in the input

  Expr* new_expr(Op op, Place place);
  Stmt* new_stmt(Tag tag, Place place);
  MacroDef* new_macro();
  Value constant(std::string text);  // an immortal str, written by the template

 private:
  std::vector<std::unique_ptr<Str>> strings_;
  std::vector<std::unique_ptr<Expr>> exprs_;
  std::vector<std::unique_ptr<Stmt>> stmts_;
  std::vector<std::unique_ptr<MacroDef>> macros_;
};

}  // namespace ingot::jinja
