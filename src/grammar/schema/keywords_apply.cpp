// The keywords that apply schemas to the same value, and those that look at what others have evaluated.
#include <algorithm>

#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {

void SchemaSets::apply(const Reading& at, Values& values) {
  const auto also = [&](const Values& more) { values = intersect(values, more); };
  if (const auto reference = text_of(at, "$ref")) {
    const Json* id = find(at.json, "$id");
    if (id != nullptr && at.draft == Draft::kUnknown && (at.index != 0 || !reference->starts_with("#"))) {
      refuse(at, "$ref", "beside $id means different things in draft 7 and 2020-12: $schema must say which");
    }
    also(this->values(schema_set(document_.resolve(at.index, *reference, false)), at.tracked));
  }
  if (has_2020(at)) {
    if (const auto reference = text_of(at, "$dynamicRef")) {
      also(this->values(schema_set(document_.resolve(at.index, *reference, true)), at.tracked));
    }
  }
  if (const JsonArray* list = list_of(at, "allOf")) {
    for (size_t i = 0; i < list->size(); i++) {
      also(this->values(child(at, "allOf", std::to_string(i), (*list)[i]), at.tracked));
    }
  }
  if (const JsonArray* list = list_of(at, "anyOf")) also(apply_any_of(at, *list));
  if (const JsonArray* list = list_of(at, "oneOf")) also(apply_one_of(at, *list));
  if (const Json* negated = schema_of(at, "not")) also(this->values(none_of(child(at, "not", *negated))));
  const bool has_if = at.draft != Draft::kDraft4;
  if (const Json* condition = schema_of(at, "if"); condition != nullptr && has_if) also(apply_if(at, *condition));
  apply_dependencies(at, values);
}

// The branches that hold are what counts for unevaluated members: there every choice of them is a case of its own.
Values SchemaSets::apply_any_of(const Reading& at, const JsonArray& list) {
  if (list.empty()) refuse(at, "anyOf", "is empty");
  std::vector<SetId> sets;
  for (size_t i = 0; i < list.size(); i++) sets.push_back(child(at, "anyOf", std::to_string(i), list[i]));
  Values out;
  if (!at.tracked) {
    for (const SetId set : sets) {
      if (set == kAlways) return all_values();
      out = unite(std::move(out), values(set));
    }
    return out;
  }
  constexpr size_t kMaxBranches = 6;
  if (sets.size() > kMaxBranches) refuse(at, "anyOf", "has too many branches beside unevaluated…");
  for (size_t chosen = 1; chosen < size_t{1} << sets.size(); chosen++) {
    Values one = all_values();
    for (size_t i = 0; i < sets.size(); i++) {
      const bool holds = (chosen >> i & 1) != 0;
      one = intersect(one, holds ? values(sets[i], true) : values(none_of(sets[i])));
    }
    out = unite(std::move(out), one);
  }
  return out;
}

Values SchemaSets::apply_one_of(const Reading& at, const JsonArray& list) {
  if (list.empty()) refuse(at, "oneOf", "is empty");
  constexpr int kProbe = 2;
  std::vector<SetId> sets;
  for (size_t i = 0; i < list.size(); i++) sets.push_back(child(at, "oneOf", std::to_string(i), list[i]));
  std::vector<std::vector<bool>> meets(sets.size(), std::vector<bool>(sets.size()));
  for (size_t i = 0; i < sets.size(); i++) {
    for (size_t j = i + 1; j < sets.size(); j++) {
      spend(1);
      meets[i][j] = meets[j][i] = sets[i] == sets[j] || !surely_empty(all_of({sets[i], sets[j]}), kProbe);
    }
  }
  Values out;
  for (size_t i = 0; i < sets.size(); i++) {
    Values one = values(sets[i], at.tracked);
    for (size_t j = 0; j < sets.size(); j++) {
      if (meets[i][j]) one = intersect(one, values(none_of(sets[j])));
    }
    out = unite(std::move(out), one);
  }
  return out;
}

Values SchemaSets::apply_if(const Reading& at, const Json& condition) {
  const Json* then = schema_of(at, "then");
  const Json* otherwise = schema_of(at, "else");
  if (then == nullptr && otherwise == nullptr && !at.tracked) return all_values();
  const SetId set = child(at, "if", condition);
  Values yes = values(set, at.tracked);
  if (then != nullptr) yes = intersect(yes, values(child(at, "then", *then), at.tracked));
  Values no = values(none_of(set));
  if (otherwise != nullptr) no = intersect(no, values(child(at, "else", *otherwise), at.tracked));
  return unite(std::move(yes), no);
}

SetId SchemaSets::requires_names(const std::vector<std::string>& names) {
  Values out = all_values();
  for (const std::string& name : names) {
    if (out.objects[0].find(name) == nullptr) out.objects[0].members.push_back({.name = name, .required = true});
  }
  return of_values(std::move(out));
}

// Objects that have `name` are in `then`; all else is as it is.
Values SchemaSets::when_present(const std::string& name, SetId then, bool tracked) {
  Values without = all_values();
  without.objects[0].members.push_back({.name = name, .set = kNever});
  const SetId present = requires_names({name});
  Values with = values(then, tracked);
  with = intersect(with, values(present));
  Values out = without;
  out.objects.insert(out.objects.end(), with.objects.begin(), with.objects.end());
  return out;
}

void SchemaSets::apply_dependencies(const Reading& at, Values& values) {
  const auto follow = [&](std::string_view key, bool names_allowed, bool schemas_allowed) {
    const JsonObject* map = map_of(at, key);
    if (map == nullptr || values.objects.empty()) return;
    for (const auto& member : *map) {
      const Json& value = member.value();
      SetId then = kAlways;
      if (value.is_array() && names_allowed) {
        then = requires_names(names_of(at, key, value));
      } else if (value.is_string() && names_allowed && has_old(at)) {  // draft 3
        then = requires_names({std::string(value.get_string())});
      } else if (schemas_allowed) {
        then = child(at, key, member.key(), value);
      } else {
        refuse(at, key, "has an element that is no array");
      }
      if (then != kAlways) values = intersect(values, when_present(std::string(member.key()), then, at.tracked));
    }
  };
  if (has_old(at)) follow("dependencies", true, true);
  if (!has_2020(at)) return;
  follow("dependentRequired", true, false);
  follow("dependentSchemas", false, true);
}

void SchemaSets::limit_unevaluated(ObjectShape& shape, SetId set) {
  if (shape.evaluated_keys == any_text()) return;
  for (Member& member : shape.members) {
    const bool seen = std::find(shape.evaluated.begin(), shape.evaluated.end(), member.name) != shape.evaluated.end() ||
                      pool().matches(shape.evaluated_keys, member.name);
    if (!seen) member.set = all_of({member.set, set});
  }
  // Names that are evaluated and not among the members keep the set that they have.
  for (const std::string& name : shape.evaluated) {
    if (shape.find(name) == nullptr) shape.members.push_back({.name = name, .set = at(shape, name)});
  }
  const Expr seen = shape.evaluated_keys;
  std::vector<KeyClass> cut;
  for (const KeyClass& known : shape.others) {
    const Expr both = pool().all_of({known.keys, seen});
    const Expr rest = seen == kNothing ? known.keys : pool().without(known.keys, seen);
    if (!is_empty(both)) cut.push_back({both, known.set});
    const SetId limited = all_of({known.set, set});
    if (limited != kNever && !is_empty(rest)) cut.push_back({rest, limited});
  }
  shape.others = std::move(cut);
}

void SchemaSets::limit_unevaluated(ArrayShape& shape, SetId set) {
  if (shape.evaluated == kNoEnd) return;
  std::vector<SetId> either = shape.evaluated_if;
  either.push_back(set);
  const SetId allowed = any_of(std::move(either));
  while (shape.prefix.size() < shape.evaluated) shape.prefix.push_back(shape.rest);
  for (size_t i = shape.evaluated; i < shape.prefix.size(); i++) shape.prefix[i] = all_of({shape.prefix[i], allowed});
  shape.rest = all_of({shape.rest, allowed});
  for (size_t i = 0; i < shape.prefix.size(); i++) {
    if (shape.prefix[i] == kNever) shape.max = std::min(shape.max, i);
  }
  if (shape.rest == kNever) shape.max = std::min(shape.max, shape.prefix.size());
}

void SchemaSets::apply_unevaluated(const Reading& at, Values& values) {
  if (!has_2020(at)) return;
  if (const Json* schema = schema_of(at, "unevaluatedProperties")) {
    const SetId set = child(at, "unevaluatedProperties", *schema);
    for (ObjectShape& shape : values.objects) {
      limit_unevaluated(shape, set);
      shape.evaluated_keys = any_text();
    }
    std::erase_if(values.objects, [&](const ObjectShape& shape) { return surely_empty(shape, 0); });
  }
  if (const Json* schema = schema_of(at, "unevaluatedItems")) {
    const SetId set = child(at, "unevaluatedItems", *schema);
    for (ArrayShape& shape : values.arrays) {
      limit_unevaluated(shape, set);
      shape.evaluated = kNoEnd;
    }
  }
}

}  // namespace ingot::grammar
