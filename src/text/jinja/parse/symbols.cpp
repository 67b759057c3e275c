#include "text/jinja/parse/symbols.h"

#include <functional>

#include "base/error.h"

namespace ingot::jinja {
namespace {

constexpr size_t kMaxWork = 200'000;  // the largest published template takes 2,800

// Calls f(name, loads) for every name in the order in which the statements hold them.
using NameFn = std::function<void(const std::string& name, bool loads)>;

void walk(const Expr* e, const NameFn& f) {
  if (e == nullptr) return;
  if (e->op == Op::kName) f(e->name, !e->store);
  for (const Expr* part : {e->a, e->b, e->c, e->d}) walk(part, f);
  for (const Expr* item : e->items) walk(item, f);
  for (const auto& [name, value] : e->named) walk(value, f);
  walk(e->star, f);
  walk(e->star_star, f);
}

void walk(const std::vector<Stmt*>& stmts, const NameFn& f);

void walk_macro(const MacroDef* macro, const NameFn& f) {
  for (const Param& param : macro->params) f(param.name, false);
  for (const Param& param : macro->params) walk(param.fallback, f);
  walk(macro->body, f);
}

void walk(const Stmt* s, const NameFn& f) {
  if (s->tag == Tag::kFor) {
    walk(s->target, f);
    walk(s->expr, f);
    walk(s->body, f);
    walk(s->orelse, f);
    walk(s->test, f);
    return;
  }
  for (const Expr* target : s->targets) walk(target, f);
  for (const Expr* value : s->values) walk(value, f);
  if (s->tag == Tag::kFilterBlock) walk(s->body, f);
  walk(s->target, f);
  walk(s->expr, f);
  for (const Data& data : s->output) walk(data.expr, f);
  if (s->macro != nullptr) walk_macro(s->macro, f);
  if (s->tag != Tag::kFilterBlock) walk(s->body, f);
  walk(s->elifs, f);
  walk(s->orelse, f);
}

void walk(const std::vector<Stmt*>& stmts, const NameFn& f) {
  for (const Stmt* stmt : stmts) walk(stmt, f);
}

}  // namespace

uint32_t NameTable::id(const std::string& name) {
  auto [it, added] = index.emplace(name, static_cast<uint32_t>(names.size()));
  if (added) names.push_back(name);
  return it->second;
}

void NameTable::spend(size_t n) {
  work += n + 1;
  if (work > kMaxWork) throw Error("[template] the template is too complex");
}

Scope::Scope(NameTable& table, Slots* slots, const Scope* parent)
    : table_(&table), slots_(slots), parent_(parent), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

const Ident* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    auto it = scope->refs_.find(name);
    if (it != scope->refs_.end()) return &it->second;
  }
  return nullptr;
}

uint16_t Scope::define(const std::string& name, Load::Action action, Ident from) {
  auto [it, added] = slots_->by_name.emplace(std::pair(level_, name), slots_->routine->slots);
  if (added && ++slots_->routine->slots == UINT16_MAX) throw Error("[template] too many variables");
  refs_[name] = {slots_, it->second};
  loads_[it->second] = {action, from, name};
  return it->second;
}

void Scope::load(const std::string& name) {
  if (find(name) == nullptr) define(name, Load::kResolve);
}

void Scope::store(const std::string& name) {
  stores_.insert(name);
  if (refs_.count(name) != 0) return;
  const Ident* outer = parent_ == nullptr ? nullptr : parent_->find(name);
  if (outer != nullptr) {
    define(name, Load::kAlias, *outer);
  } else {
    define(name, Load::kUndefined);
  }
}

uint16_t Scope::declare_parameter(const std::string& name) {
  stores_.insert(name);
  return define(name, Load::kParameter);
}

void Scope::declare_target(const Expr* target) {
  if (target->op == Op::kName) declare_parameter(target->name);
  for (const Expr* item : target->items) declare_target(item);
}

void Scope::visit(const Expr* expr) {
  if (expr == nullptr) return;
  table_->spend(0);
  if (expr->op == Op::kName) {
    expr->store ? store(expr->name) : load(expr->name);
  } else if (expr->op == Op::kMember) {
    load(expr->name);
  }
  for (const Expr* part : {expr->a, expr->b, expr->c, expr->d}) visit(part);
  for (const Expr* item : expr->items) visit(item);
  for (const auto& [name, value] : expr->named) visit(value);
  visit(expr->star);
  visit(expr->star_star);
}

void Scope::visit(const std::vector<Stmt*>& stmts) {
  for (const Stmt* stmt : stmts) visit(stmt);
}

void Scope::visit(const Stmt* stmt) {
  switch (stmt->tag) {
    case Tag::kOutput:
      for (const Data& data : stmt->output) visit(data.expr);
      break;
    case Tag::kIf:
      visit_if(stmt);
      break;
    case Tag::kMacro:
      store(stmt->macro->name);
      break;
    case Tag::kSet:
      visit(stmt->expr);
      visit(stmt->target);
      break;
    case Tag::kSetBlock:
      visit(stmt->target);
      break;
    case Tag::kFor:
    case Tag::kCallBlock:
    case Tag::kFilterBlock:
      visit(stmt->expr);
      break;
    case Tag::kWith:
      for (const Expr* value : stmt->values) visit(value);
      break;
    case Tag::kImport:
      visit(stmt->expr);
      for (const Expr* target : stmt->targets) store(target->name);
      break;
    case Tag::kGeneration:
    case Tag::kBreak:
    case Tag::kContinue:
      break;
  }
}

void Scope::visit_if(const Stmt* stmt) {
  visit(stmt->expr);
  std::vector<Scope> branches(3, *this);
  table_->spend(3 * refs_.size());
  branches[0].visit(stmt->body);
  branches[1].visit(stmt->elifs);
  branches[2].visit(stmt->orelse);
  merge(branches);
}

void Scope::merge(const std::vector<Scope>& branches) {
  std::set<std::string> stores;
  for (const Scope& branch : branches) stores.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stores.erase(name);
  for (const Scope& branch : branches) {
    for (const auto& [name, ident] : branch.refs_) refs_[name] = ident;
    for (const auto& [slot, entry] : branch.loads_) loads_[slot] = entry;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stores) {
    const Ident* outer = parent_ == nullptr ? nullptr : parent_->find(name);
    Entry& entry = loads_[find(name)->slot];
    entry = outer != nullptr ? Entry{Load::kAlias, *outer, name} : Entry{Load::kResolve, {}, name};
  }
}

Ref make_ref(const Ident& ident, const Routine& inside) {
  return {static_cast<uint16_t>(inside.level - ident.owner->routine->level), ident.slot};
}

Frame Scope::frame(const Routine& inside) const {
  Frame out;
  for (const auto& [slot, entry] : loads_) {
    Load load;
    load.action = entry.action;
    load.slot = slot;
    if (entry.action == Load::kAlias) load.from = make_ref(entry.from, inside);
    if (entry.action == Load::kResolve) load.name = table_->id(entry.name);
    out.push_back(load);
  }
  return out;
}

std::set<std::string> undeclared(const std::vector<Stmt*>& stmts, std::set<std::string> names) {
  std::set<std::string> found;
  walk(stmts, [&](const std::string& name, bool loads) {
    if (!loads) {
      names.erase(name);
    } else if (names.count(name) != 0) {
      found.insert(name);
    }
  });
  return found;
}

bool assigns(const Stmt* stmt, std::string_view name) {
  bool found = false;
  walk(stmt, [&](const std::string& other, bool loads) { found |= !loads && other == name; });
  return found;
}

}  // namespace ingot::jinja
