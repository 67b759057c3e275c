// The keywords of arrays and objects.
#include <algorithm>

#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {

ArrayShape SchemaSets::read_array(const Reading& at) {
  ArrayShape shape;
  const Json* items = find(at.json, "items");
  const JsonArray* prefix = has_2020(at) ? list_of(at, "prefixItems") : nullptr;
  std::string_view prefix_key = "prefixItems";
  if (prefix == nullptr && items != nullptr && items->is_array() && has_old(at)) {
    prefix = &items->get_array();
    prefix_key = "items";
    items = find(at.json, "additionalItems");
  }
  if (prefix != nullptr) {
    for (size_t i = 0; i < prefix->size(); i++) {
      shape.prefix.push_back(child(at, prefix_key, std::to_string(i), (*prefix)[i]));
    }
  }
  if (items != nullptr) shape.rest = child(at, prefix_key == "items" ? "additionalItems" : "items", *items);
  shape.min = count_of(at, "minItems").value_or(0);
  shape.max = count_of(at, "maxItems").value_or(kNoEnd);
  if (shape.max == max_repeat_) shape.max = kNoEnd;
  shape.evaluated = items != nullptr ? kNoEnd : shape.prefix.size();

  if (const Json* contains = schema_of(at, "contains"); contains != nullptr && at.draft != Draft::kDraft4) {
    ItemCount count{.set = child(at, "contains", *contains), .min = 1};
    if (has_2020(at)) {
      count.min = count_of(at, "minContains").value_or(1);
      count.max = count_of(at, "maxContains").value_or(kNoEnd);
    }
    if (count.min > 0 || count.max != kNoEnd) shape.counts.push_back(count);
    if (has_2020(at)) shape.evaluated_if.push_back(count.set);
  }
  if (const Json* unique = find(at.json, "uniqueItems")) {
    if (!unique->is_bool()) refuse(at, "uniqueItems", "is no boolean");
    if (unique->get_bool()) shape.unique = at.index;
  }
  for (size_t i = 0; i < shape.prefix.size(); i++) {
    if (shape.prefix[i] == kNever) shape.max = std::min(shape.max, i);
  }
  if (shape.rest == kNever) shape.max = std::min(shape.max, shape.prefix.size());
  return shape;
}

// Each pattern cuts the classes of keys in two: those that match it as well, and the others.
void SchemaSets::split_by_patterns(const Reading& at, ObjectShape& shape, const JsonObject& patterns) {
  for (const auto& member : patterns) {
    const Expr keys = pattern(at, "patternProperties", member.key());
    const SetId set = child(at, "patternProperties", member.key(), member.value());
    for (Member& named : shape.members) {
      if (pool().matches(keys, named.name)) named.set = all_of({named.set, set});
    }
    std::vector<KeyClass> cut;
    for (const KeyClass& known : shape.others) {
      const Expr both = known.keys == any_text() ? keys : pool().all_of({known.keys, keys});
      const Expr rest = pool().without(known.keys, keys);
      if (!is_empty(both)) cut.push_back({both, all_of({known.set, set})});
      if (!is_empty(rest)) cut.push_back({rest, known.set});
    }
    spend(cut.size() * 10);
    shape.others = std::move(cut);
    if (at.tracked) shape.evaluated_keys = pool().any_of({shape.evaluated_keys, keys});
  }
}

void SchemaSets::limit_names(const Reading& at, ObjectShape& shape, const Json& schema) {
  const SetId names = child(at, "propertyNames", schema);
  if (names == kAlways) return;
  const TextSet texts = names == kNever ? TextSet{} : values(names).texts;
  if (texts.extent == Extent::kAll) return;
  const Expr allowed = expr_of(texts);
  for (Member& member : shape.members) {
    if (!pool().matches(allowed, member.name)) member.set = kNever;
  }
  std::vector<KeyClass> kept;
  for (const KeyClass& known : shape.others) {
    const Expr keys = known.keys == any_text() ? allowed : pool().all_of({known.keys, allowed});
    if (!is_empty(keys)) kept.push_back({keys, known.set});
  }
  shape.others = std::move(kept);
}

ObjectShape SchemaSets::read_object(const Reading& at) {
  ObjectShape shape = any_object();
  if (const JsonObject* properties = map_of(at, "properties")) {
    for (const auto& member : *properties) {
      const SetId set = child(at, "properties", member.key(), member.value());
      shape.members.push_back({.name = std::string(member.key()), .set = set, .placed = true});
      if (at.tracked) shape.evaluated.emplace_back(member.key());
    }
  }
  const JsonObject* patterns = map_of(at, "patternProperties");
  const size_t named = shape.members.size();
  std::vector<Expr> matched;  // keys that additionalProperties does not look at
  if (patterns != nullptr) {
    split_by_patterns(at, shape, *patterns);
    for (const auto& member : *patterns) matched.push_back(pattern(at, "patternProperties", member.key()));
  }
  if (const Json* additional = schema_of(at, "additionalProperties")) {
    const SetId set = child(at, "additionalProperties", *additional);
    if (matched.empty()) {
      for (KeyClass& known : shape.others) known.set = all_of({known.set, set});
    } else {
      const Expr seen = pool().any_of(matched);
      shape.others = intersect(shape.others, {{seen, kAlways}, {pool().without(any_text(), seen), set}});
    }
    std::erase_if(shape.others, [](const KeyClass& known) { return known.set == kNever; });
    if (at.tracked) shape.evaluated_keys = any_text();
  }
  if (const Json* required = find(at.json, "required"); required != nullptr) {
    // Draft 3 had a boolean here, inside of the property itself: it says nothing about this value.
    if (!required->is_bool() || !has_old(at)) {
      for (const std::string& name : names_of(at, "required", *required)) {
        const auto known = std::find_if(shape.members.begin(), shape.members.end(),
                                        [&](const Member& member) { return member.name == name; });
        if (known != shape.members.end()) {
          known->required = true;
        } else {
          const SetId set = this->at(shape, name);
          shape.members.push_back({.name = name, .set = set, .required = true});
        }
      }
    }
  }
  spend(named + shape.members.size());
  shape.min = count_of(at, "minProperties").value_or(0);
  shape.max = count_of(at, "maxProperties").value_or(kNoEnd);
  if (shape.max == max_repeat_) shape.max = kNoEnd;
  if (const Json* names = schema_of(at, "propertyNames"); names != nullptr && at.draft != Draft::kDraft4) {
    limit_names(at, shape, *names);
  }
  return shape;
}

}  // namespace ingot::grammar
