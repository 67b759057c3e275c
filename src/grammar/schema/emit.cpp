#include "grammar/schema/emit.h"

#include <algorithm>

namespace ingot::grammar {

namespace {

bool is_any(const ArrayShape& shape) {
  return shape.prefix.empty() && shape.rest == kAlways && shape.min == 0 && shape.max == kNoEnd &&
         shape.counts.empty() && shape.unique < 0;
}

}  // namespace

SchemaEmitter::SchemaEmitter(SetAlgebra& sets, GrammarBuilder& builder, Notation& notation)
    : sets_(sets), builder_(builder), notation_(notation) {}

Symbol SchemaEmitter::emit(SetId set) {
  const Symbol start = value(set);
  make_waiting();
  return start;
}

Symbol SchemaEmitter::emit_objects(SetId set, Members& members) {
  const Symbol start = builder_.rule();
  for (const ObjectShape& shape : sets_.values(set).objects) object(start, shape, members);
  make_waiting();
  return start;
}

void SchemaEmitter::make_waiting() {
  while (!waiting_.empty()) {
    const auto [rule, id] = waiting_.back();
    waiting_.pop_back();
    const Values& values = sets_.values(id);
    for (const ArrayShape& shape : values.arrays) array(rule, shape);
    for (const ObjectShape& shape : values.objects) object(rule, shape);
  }
}

// The symbol of a set. Its arrays and objects get their rules later, so that nothing here recurses.
Symbol SchemaEmitter::value(SetId set) {
  if (set == kNever) return builder_.nothing();
  if (set == kAlways) return notation_.any_value();
  const auto found = known_.find(set);
  if (found != known_.end()) return found->second;
  const Values& values = sets_.values(set);
  std::vector<Symbol> choices;
  scalars(values, choices);
  const bool shapes = !values.arrays.empty() || !values.objects.empty();
  Symbol symbol = 0;
  if (!shapes && choices.size() <= 1) {
    symbol = choices.empty() ? builder_.nothing() : choices[0];
  } else {
    symbol = builder_.rule();
    for (const Symbol choice : choices) builder_.add(symbol, {choice});
    if (shapes) waiting_.emplace_back(symbol, set);
  }
  known_.emplace(set, symbol);
  return symbol;
}

void SchemaEmitter::scalars(const Values& values, std::vector<Symbol>& out) {
  if (values.null || values.yes || values.no) out.push_back(notation_.words(values.null, values.yes, values.no));
  if (values.numbers.extent != Extent::kNone) out.push_back(numbers(values.numbers));
  if (values.texts.extent != Extent::kNone) out.push_back(texts(values.texts));
}

Symbol SchemaEmitter::numbers(const NumberSet& set) {
  if (set.extent == Extent::kAll) return notation_.any_number();
  if (!set.integers) return notation_.number(set.expr);
  if (set.expr == sets_.numbers().integers()) return notation_.integer();
  return notation_.number(builder_.regexes().all_of({set.expr, sets_.numbers().plain_integer()}));
}

Symbol SchemaEmitter::texts(const TextSet& set) {
  if (set.extent == Extent::kAll) return notation_.any_text();
  return set.by_length ? notation_.text_of_length(set.min, set.max) : notation_.text(set.expr);
}

void SchemaEmitter::array(Symbol rule, const ArrayShape& shape) {
  if (shape.min > shape.max) return;
  if (is_any(shape)) return builder_.add(rule, {notation_.any_array()});
  if (shape.unique >= 0 && shape.max > 1) {
    return unique_array(rule, shape);
  }
  if (!shape.counts.empty()) return counted_array(rule, shape);
  const size_t prefix = std::min(shape.prefix.size(), shape.max);
  const auto bounded = [](size_t n) { return n >= kUnbounded ? kUnbounded : static_cast<uint32_t>(n); };
  const uint32_t least = bounded(shape.min > prefix ? shape.min - prefix : 0);
  const uint32_t most = shape.max == kNoEnd ? kUnbounded : bounded(shape.max - prefix);
  Symbol tail = builder_.empty();
  if (most > 0 && shape.rest != kNever) {
    const Symbol item = value(shape.rest);
    tail = prefix == 0 ? builder_.separated(item, notation_.comma(), least, most)
                       : builder_.repeat(builder_.sequence({notation_.comma(), item}), least, most);
  } else if (least > 0) {
    return;
  }
  for (size_t i = prefix; i-- > 0;) {
    const Symbol item = value(shape.prefix[i]);
    tail = i == 0 ? builder_.sequence({item, tail}) : builder_.sequence({notation_.comma(), item, tail});
    if (i >= shape.min) tail = builder_.optional(tail);
  }
  builder_.add(rule, {notation_.open_array(), tail, notation_.close_array()});
}

// A rule for each state: items so far, and of each count how many of them there were.
void SchemaEmitter::counted_array(Symbol rule, const ArrayShape& shape) {
  constexpr size_t kMaxStates = 20'000;
  using State = std::vector<size_t>;  // items (as far as they matter), then the counts
  size_t last = shape.prefix.size();
  if (shape.max != kNoEnd) last = std::max(last, shape.max);
  last = std::max(last, shape.min);
  for (const ItemCount& count : shape.counts) last = std::max(last, count.from);
  last = std::max<size_t>(last, 1);  // the first item has no comma

  std::map<State, Symbol> known;
  std::vector<State> waiting;
  const auto state_rule = [&](const State& state) {
    const auto [it, is_new] = known.try_emplace(state, 0);
    if (is_new) {
      if (known.size() > kMaxStates) throw LimitError("[schema] contains: more than {} states", kMaxStates);
      it->second = builder_.rule();
      waiting.push_back(state);
    }
    return it->second;
  };
  const Symbol start = state_rule(State(1 + shape.counts.size(), 0));
  while (!waiting.empty()) {
    const State state = waiting.back();
    waiting.pop_back();
    const Symbol here = known.at(state);
    bool may_end = state[0] >= shape.min;
    for (size_t k = 0; k < shape.counts.size(); k++) may_end &= state[k + 1] >= shape.counts[k].min;
    if (may_end) builder_.add(here, {});
    if (state[0] >= shape.max) continue;
    // Each count either goes up with this item or not: all choices, where both are possible.
    std::vector<std::pair<State, SetId>> choices{{state, shape.at(state[0])}};
    for (size_t k = 0; k < shape.counts.size(); k++) {
      const ItemCount& count = shape.counts[k];
      const bool has_end = count.max != kNoEnd;
      if (state[0] < count.from || (!has_end && state[k + 1] >= count.min)) continue;
      std::vector<std::pair<State, SetId>> next;
      for (const auto& [to, set] : choices) {
        const SetId others = has_end ? sets_.all_of({set, sets_.none_of(count.set)}) : set;
        if (others != kNever) next.emplace_back(to, others);
        if (has_end && to[k + 1] >= count.max) continue;
        const SetId matching = sets_.all_of({set, count.set});
        if (matching == kNever) continue;
        next.emplace_back(to, matching);
        next.back().first[k + 1]++;
      }
      choices = std::move(next);
    }
    for (auto& [to, set] : choices) {
      to[0] = std::min(to[0] + 1, last);
      const Symbol item = value(set), next = state_rule(to);
      if (state[0] == 0) {
        builder_.add(here, {item, next});
      } else {
        builder_.add(here, {notation_.comma(), item, next});
      }
    }
  }
  builder_.add(rule, {notation_.open_array(), start, notation_.close_array()});
}

}  // namespace ingot::grammar
