#include "grammar/schema/algebra.h"

#include <algorithm>

namespace ingot::grammar {

namespace {

constexpr int kMaxDepth = 150;  // sets that are looked into for the sake of one another
constexpr int kMaxProbes = 3;

size_t size_of(const Values& values) {
  size_t bytes = sizeof(Values);
  for (const ArrayShape& shape : values.arrays) {
    bytes += sizeof(shape) + (shape.prefix.size() + shape.evaluated_if.size()) * sizeof(SetId) +
             shape.counts.size() * sizeof(ItemCount);
  }
  for (const ObjectShape& shape : values.objects) {
    bytes += sizeof(shape) + (shape.others.size() + shape.some.size()) * sizeof(KeyClass);
    for (const Member& member : shape.members) bytes += sizeof(member) + member.name.size();
    for (const std::string& name : shape.evaluated) bytes += sizeof(name) + name.size();
  }
  return bytes;
}

// A set was asked for while it is being made, by one who only wants to know whether it is empty.
struct InTheMaking {};

}  // namespace

SetAlgebra::SetAlgebra(Regexes& pool, const Limits& limits)
    : pool_(pool), limits_(limits), numbers_(pool), any_text_(pool.star(pool.any_char())), steps_left_(limits.steps) {
  of_values({});  // kNever
  of_values(all_values());
}

void SetAlgebra::spend(size_t steps) {
  if (steps > steps_left_) throw LimitError("[schema] too complex: more than {} steps", limits_.steps);
  steps_left_ -= steps;
  if (limits_.meter) limits_.meter->spend(steps);
}

void SetAlgebra::hold(const Values& values) {
  const size_t bytes = size_of(values);
  bytes_ += bytes;
  if (bytes_ > limits_.set_bytes) throw LimitError("[schema] too complex: more than {} bytes", limits_.set_bytes);
  if (limits_.meter) limits_.meter->spend(bytes / 64);
}

SetId SetAlgebra::intern(Set set) {
  spend(1);
  constexpr size_t kMaxSets = 100'000;
  if (sets_.size() >= kMaxSets) throw LimitError("[schema] too complex: more than {} sets", kMaxSets);
  sets_.push_back(std::move(set));
  return static_cast<SetId>(sets_.size()) - 1;
}

SetId SetAlgebra::schema_set(int32_t subschema) {
  const auto found = of_schema_.find(subschema);
  if (found != of_schema_.end()) return found->second;
  const SetId set = intern({.kind = Set::Kind::kSchema, .subschema = subschema});
  of_schema_.emplace(subschema, set);
  return set;
}

SetId SetAlgebra::constant(const Json& value) {
  const auto found = of_json_.find(&value);
  if (found != of_json_.end()) return found->second;
  const SetId set = intern({.kind = Set::Kind::kConstant, .json = &value});
  of_json_.emplace(&value, set);
  return set;
}

SetId SetAlgebra::of_values(Values values) {
  hold(values);
  const SetId set = intern({.kind = Set::Kind::kValues});
  known_[uint64_t{set} << 1].values = std::make_unique<Values>(std::move(values));
  return set;
}

SetId SetAlgebra::all_of(std::vector<SetId> sets) {
  std::vector<SetId> parts;
  for (const SetId set : sets) {
    if (set == kNever) return kNever;
    if (set == kAlways) continue;
    const Set& known = sets_[set];
    if (known.kind == Set::Kind::kAll) {
      parts.insert(parts.end(), known.parts.begin(), known.parts.end());
    } else {
      parts.push_back(set);
    }
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.empty()) return kAlways;
  if (parts.size() == 1) return parts[0];
  for (const SetId part : parts) {
    if (sets_[part].kind == Set::Kind::kNone && std::binary_search(parts.begin(), parts.end(), sets_[part].parts[0])) {
      return kNever;
    }
  }
  const auto [it, is_new] = made_.try_emplace({0, parts}, 0);
  if (is_new) it->second = intern({.kind = Set::Kind::kAll, .parts = std::move(parts)});
  return it->second;
}

SetId SetAlgebra::any_of(std::vector<SetId> sets) {
  std::erase(sets, kNever);
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  if (sets.empty()) return kNever;
  if (sets.size() == 1) return sets[0];
  if (std::binary_search(sets.begin(), sets.end(), kAlways)) return kAlways;
  const auto [it, is_new] = made_.try_emplace({1, sets}, 0);
  if (is_new) it->second = intern({.kind = Set::Kind::kAny, .parts = std::move(sets)});
  return it->second;
}

SetId SetAlgebra::none_of(SetId set) {
  if (set == kNever) return kAlways;
  if (set == kAlways) return kNever;
  if (sets_[set].kind == Set::Kind::kNone) return sets_[set].parts[0];
  const auto [it, is_new] = made_.try_emplace({2, {set}}, 0);
  if (is_new) it->second = intern({.kind = Set::Kind::kNone, .parts = {set}});
  return it->second;
}

const Values& SetAlgebra::values(SetId set, bool tracked) {
  if (sets_[set].kind == Set::Kind::kValues) tracked = false;
  const uint64_t key = uint64_t{set} << 1 | (tracked ? 1 : 0);
  Known& known = known_[key];  // references to elements stay valid while others are added
  if (known.values != nullptr) return *known.values;
  if (known.computing) {
    if (probes_ > 0) throw InTheMaking();
    throw GrammarError("", "[schema] a schema refers to itself without a value between");
  }
  known.computing = true;
  depth_++;
  try {
    if (depth_ > kMaxDepth) throw LimitError("[schema] references and combinations are nested too deeply");
    known.values = std::make_unique<Values>(compute(set, tracked));
    hold(*known.values);
  } catch (...) {
    depth_--;
    known.computing = false;
    throw;
  }
  depth_--;
  known.computing = false;
  return *known.values;
}

Values SetAlgebra::compute(SetId id, bool tracked) {
  const Set set = sets_[id];  // a copy: others are made meanwhile
  switch (set.kind) {
    case Set::Kind::kSchema:
      return schema_values(set.subschema, tracked);
    case Set::Kind::kConstant:
      return exactly(*set.json);
    case Set::Kind::kNone:
      return complement(values(set.parts[0]));
    case Set::Kind::kAll: {
      Values out = values(set.parts[0], tracked);
      for (size_t i = 1; i < set.parts.size(); i++) out = intersect(out, values(set.parts[i], tracked));
      return out;
    }
    case Set::Kind::kAny: {
      Values out;
      for (const SetId part : set.parts) out = unite(std::move(out), values(part, tracked));
      return out;
    }
    case Set::Kind::kValues:
      break;
  }
  return {};
}

bool SetAlgebra::is_empty(Expr expr) {
  if (!pool_.may_hide_nothing(expr)) return expr == kNothing;
  spend(10);
  return pool_.is_empty(expr, limits_.steps / 400);  // 5,000 take a tenth of a second
}

bool SetAlgebra::surely_empty(SetId set, int depth) {
  if (set == kNever) return true;
  if (set == kAlways || depth < 0 || probes_ >= kMaxProbes) return false;
  probes_++;
  bool empty = false;
  try {
    empty = surely_empty(values(set), depth);
  } catch (const InTheMaking&) {
  } catch (...) {
    probes_--;
    throw;
  }
  probes_--;
  return empty;
}

bool SetAlgebra::surely_empty(const Values& values, int depth) {
  if (values.null || values.yes || values.no) return false;
  if (values.numbers.extent == Extent::kAll || values.texts.extent == Extent::kAll) return false;
  if (values.numbers.extent == Extent::kSome && !is_empty(values.numbers.expr)) return false;
  if (values.texts.extent == Extent::kSome && !is_empty(expr_of(values.texts))) return false;
  const auto is_empty_shape = [&](const auto& shape) { return surely_empty(shape, depth); };
  return std::all_of(values.arrays.begin(), values.arrays.end(), is_empty_shape) &&
         std::all_of(values.objects.begin(), values.objects.end(), is_empty_shape);
}

}  // namespace ingot::grammar
