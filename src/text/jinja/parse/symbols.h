// Which variable a name means. Templates have Python's rules at one remove: a scope knows the names that its statements
// load and store before it runs, and a name that it stores is its own from the beginning.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"

namespace ingot::jinja {

// The slots of one Routine while it is being resolved.
struct Slots {
  Routine* routine = nullptr;
  std::map<std::pair<int, std::string>, uint16_t> by_name;  // by level of scope and name
};

struct Ident {
  Slots* owner = nullptr;
  uint16_t slot = 0;
};

// State of one resolution: the input's names, and a bound on its work.
struct NameTable {
  std::vector<std::string>& names;
  std::map<std::string, uint32_t, std::less<>> index;
  size_t work = 0;

  uint32_t id(const std::string& name);
  void spend(size_t n);  // Error when a template is made to be slow to resolve
};

class Scope {
 public:
  Scope(NameTable& table, Slots* slots, const Scope* parent);

  void load(const std::string& name);
  void store(const std::string& name);
  uint16_t declare_parameter(const std::string& name);

  // What a statement or expression in this scope does to its names, without entering scopes inside.
  void visit(const Stmt* stmt);
  void visit(const Expr* expr);
  void visit(const std::vector<Stmt*>& stmts);
  void declare_target(const Expr* target);  // every name in it as a parameter

  const Ident* find(const std::string& name) const;
  Frame frame(const Routine& inside) const;  // the loads, as seen from `inside`

 private:
  struct Entry {
    Load::Action action;
    Ident from;
    std::string name;
  };
  uint16_t define(const std::string& name, Load::Action action, Ident from = {});
  void visit_if(const Stmt* stmt);
  void merge(const std::vector<Scope>& branches);

  NameTable* table_;
  Slots* slots_;
  const Scope* parent_;
  int level_;
  std::map<std::string, Ident> refs_;
  std::map<uint16_t, Entry> loads_;
  std::set<std::string> stores_;
};

Ref make_ref(const Ident& ident, const Routine& inside);

// Which of `names` the statements use before they declare them.
std::set<std::string> undeclared(const std::vector<Stmt*>& stmts, std::set<std::string> names);
// Whether a name is assigned anywhere inside, scopes and all.
bool assigns(const Stmt* stmt, std::string_view name);

}  // namespace ingot::jinja
