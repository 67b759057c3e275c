// Intersection and complement of the shapes of arrays and objects.
#include <algorithm>
#include <iterator>

#include "grammar/schema/algebra.h"

namespace ingot::grammar {

namespace {

constexpr size_t kMaxShapes = 2000;
constexpr int kProbe = 1;  // levels of members and items that are looked into before a shape is kept

void tidy(ArrayShape& shape) {
  for (size_t i = 0; i < shape.prefix.size(); i++) {
    if (shape.prefix[i] == kNever) shape.max = std::min(shape.max, i);
  }
  if (shape.rest == kNever) shape.max = std::min(shape.max, shape.prefix.size());
  if (shape.max < shape.prefix.size()) {
    shape.prefix.resize(shape.max);
    shape.rest = kNever;
  }
}

}  // namespace

ArrayShape SetAlgebra::intersect(const ArrayShape& a, const ArrayShape& b) {
  ArrayShape out;
  const size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  spend(prefix + 1);
  for (size_t i = 0; i < prefix; i++) out.prefix.push_back(all_of({a.at(i), b.at(i)}));
  out.rest = all_of({a.rest, b.rest});
  out.min = std::max(a.min, b.min);
  out.max = std::min(a.max, b.max);
  out.counts = a.counts;
  for (const ItemCount& count : b.counts) {
    if (std::find(out.counts.begin(), out.counts.end(), count) == out.counts.end()) out.counts.push_back(count);
  }
  out.unique = std::max(a.unique, b.unique);
  out.evaluated = std::max(a.evaluated, b.evaluated);
  out.evaluated_if = a.evaluated_if;
  out.evaluated_if.insert(out.evaluated_if.end(), b.evaluated_if.begin(), b.evaluated_if.end());
  tidy(out);
  return out;
}

bool SetAlgebra::includes_all(const std::vector<KeyClass>& classes) const {
  return classes.size() == 1 && classes[0].keys == any_text_;
}

std::vector<KeyClass> SetAlgebra::intersect(const std::vector<KeyClass>& a, const std::vector<KeyClass>& b) {
  std::vector<KeyClass> out;
  spend(a.size() * b.size());
  for (const KeyClass& x : a) {
    for (const KeyClass& y : b) {
      const SetId set = all_of({x.set, y.set});
      if (set == kNever) continue;
      const Expr keys = x.keys == any_text_ ? y.keys : y.keys == any_text_ ? x.keys : pool_.all_of({x.keys, y.keys});
      if (!is_empty(keys)) out.push_back({keys, set});
    }
  }
  return out;
}

SetId SetAlgebra::at(const ObjectShape& shape, std::string_view name) {
  if (const Member* member = shape.find(name)) return member->set;
  if (includes_all(shape.others)) return shape.others[0].set;
  spend(shape.others.size());
  for (const KeyClass& other : shape.others) {
    if (pool_.matches(other.keys, name)) return other.set;
  }
  return kNever;
}

// False where nothing is in both.
bool SetAlgebra::intersect(const ObjectShape& a, const ObjectShape& b, ObjectShape& out) {
  spend(1 + a.members.size() + b.members.size());
  out.members.reserve(a.members.size() + b.members.size());
  const auto add = [&](const Member& member, const ObjectShape& other) {
    const Member* same = other.find(member.name);
    Member both = member;
    both.set = all_of({member.set, at(other, member.name)});
    if (same != nullptr) {
      both.required |= same->required;
      both.placed |= same->placed;
    }
    out.members.push_back(both);
    return both.set != kNever || !both.required;
  };
  // Those that have a place in one of both first, in the order of a, then of b.
  for (const bool placed : {true, false}) {
    for (const Member& member : a.members) {
      if (member.placed == placed && out.find(member.name) == nullptr && !add(member, b)) return false;
    }
    for (const Member& member : b.members) {
      if (member.placed == placed && out.find(member.name) == nullptr && !add(member, a)) return false;
    }
  }
  out.others = intersect(a.others, b.others);
  out.some = a.some;
  out.some.insert(out.some.end(), b.some.begin(), b.some.end());
  out.min = std::max(a.min, b.min);
  out.max = std::min(a.max, b.max);
  out.evaluated = a.evaluated;
  out.evaluated.insert(out.evaluated.end(), b.evaluated.begin(), b.evaluated.end());
  out.evaluated_keys = pool_.any_of({a.evaluated_keys, b.evaluated_keys});
  return true;
}

std::vector<ArrayShape> SetAlgebra::cross(const std::vector<ArrayShape>& a, const std::vector<ArrayShape>& b) {
  std::vector<ArrayShape> out;
  for (const ArrayShape& x : a) {
    for (const ArrayShape& y : b) {
      ArrayShape both = intersect(x, y);
      if (surely_empty(both, kProbe)) continue;
      if (out.size() >= kMaxShapes)
        throw LimitError("[schema] too complex: more than {} shapes of an array", kMaxShapes);
      out.push_back(std::move(both));
    }
  }
  return out;
}

std::vector<ObjectShape> SetAlgebra::cross(const std::vector<ObjectShape>& a, const std::vector<ObjectShape>& b) {
  std::vector<ObjectShape> out;
  for (const ObjectShape& x : a) {
    for (const ObjectShape& y : b) {
      ObjectShape both;
      if (!intersect(x, y, both) || surely_empty(both, kProbe)) continue;
      if (out.size() >= kMaxShapes)
        throw LimitError("[schema] too complex: more than {} shapes of an object", kMaxShapes);
      out.push_back(std::move(both));
    }
  }
  return out;
}

std::vector<ArrayShape> SetAlgebra::complement(const ArrayShape& a) {
  if (a.unique >= 0) throw GrammarError("", "[schema] uniqueItems cannot be negated (not, oneOf, if)");
  std::vector<ArrayShape> out;
  if (a.min > 0) out.push_back({.max = a.min - 1});
  if (a.max != kNoEnd) out.push_back({.min = a.max + 1});
  for (size_t i = 0; i < a.prefix.size(); i++) {
    if (a.prefix[i] == kAlways) continue;
    ArrayShape shape{.prefix = std::vector<SetId>(i + 1, kAlways), .min = i + 1};
    shape.prefix[i] = none_of(a.prefix[i]);
    out.push_back(std::move(shape));
  }
  if (a.rest == kNever) {
    if (a.max > a.prefix.size()) out.push_back({.min = a.prefix.size() + 1});
  } else if (a.rest != kAlways) {
    out.push_back({.counts = {{.set = none_of(a.rest), .from = a.prefix.size(), .min = 1}}});
  }
  for (const ItemCount& count : a.counts) {
    if (count.min > 0) out.push_back({.counts = {{.set = count.set, .from = count.from, .max = count.min - 1}}});
    if (count.max != kNoEnd) out.push_back({.counts = {{.set = count.set, .from = count.from, .min = count.max + 1}}});
  }
  for (ArrayShape& shape : out) tidy(shape);
  return out;
}

Expr SetAlgebra::names_expr(const ObjectShape& shape) {
  std::vector<std::string> names;
  for (const Member& member : shape.members) names.push_back(member.name);
  return pool_.literals(std::move(names));
}

std::vector<ObjectShape> SetAlgebra::complement(const ObjectShape& a) {
  std::vector<ObjectShape> out;
  const auto add = [&] { return &out.emplace_back(any_object()); };
  if (a.min > 0) add()->max = a.min - 1;
  if (a.max != kNoEnd) add()->min = a.max + 1;
  for (const Member& member : a.members) {
    if (member.required) add()->members.push_back({.name = member.name, .set = kNever});
    if (member.set == kAlways) continue;
    add()->members.push_back({.name = member.name, .set = none_of(member.set), .required = true});
  }
  if (!includes_all(a.others) || a.others[0].set != kAlways) {
    const Expr names = names_expr(a);
    std::vector<Expr> covered{names};
    for (const KeyClass& other : a.others) {
      covered.push_back(other.keys);
      const Expr keys = pool_.without(other.keys, names);
      if (other.set != kAlways && !is_empty(keys)) add()->some.push_back({keys, none_of(other.set)});
    }
    const Expr missing = includes_all(a.others) ? kNothing : pool_.without(any_text_, pool_.any_of(covered));
    if (!is_empty(missing)) add()->some.push_back({missing, kAlways});
  }
  for (const KeyClass& some : a.some) {
    ObjectShape* shape = add();
    shape->others = {{some.keys, none_of(some.set)}};
    const Expr rest = pool_.without(any_text_, some.keys);
    if (!is_empty(rest)) shape->others.push_back({rest, kAlways});
    if (some.set == kAlways) shape->others.erase(shape->others.begin());
  }
  return out;
}

bool SetAlgebra::surely_empty(const ArrayShape& shape, int depth) {
  if (shape.min > shape.max) return true;
  for (size_t i = 0; i < std::min(shape.min, shape.prefix.size() + 1); i++) {
    if (surely_empty(shape.at(i), depth - 1)) return true;
  }
  for (const ItemCount& count : shape.counts) {
    if (count.min > count.max) return true;
    if (count.min == 0) continue;
    if (count.set == kNever || shape.max < count.from || shape.max - count.from < count.min) return true;
    bool possible = count.from >= shape.prefix.size() || shape.max > shape.prefix.size();
    if (possible) possible = !surely_empty(all_of({count.set, shape.rest}), depth - 1);
    for (size_t i = count.from; i < shape.prefix.size() && !possible; i++) {
      possible = !surely_empty(all_of({count.set, shape.prefix[i]}), depth - 1);
    }
    if (!possible) return true;
  }
  return false;
}

bool SetAlgebra::surely_empty(const ObjectShape& shape, int depth) {
  size_t required = 0, possible = 0;
  for (const Member& member : shape.members) {
    required += member.required ? 1 : 0;
    possible += member.set == kNever ? 0 : 1;
    if (member.required && surely_empty(member.set, depth - 1)) return true;
  }
  if (shape.min > shape.max || required > shape.max) return true;
  if (shape.others.empty() && possible < shape.min) return true;
  for (const KeyClass& some : shape.some) {
    if (some.set == kNever || shape.max == 0 || is_empty(some.keys)) return true;
    if (!shape.others.empty()) continue;
    const bool can = std::any_of(shape.members.begin(), shape.members.end(), [&](const Member& member) {
      return member.set != kNever && pool_.matches(some.keys, member.name) &&
             !surely_empty(all_of({some.set, member.set}), depth - 1);
    });
    if (!can) return true;
  }
  return false;
}

}  // namespace ingot::grammar
