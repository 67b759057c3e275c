// Arrays whose items are all different, where the items can be only a few values: a rule for each set of values that
// were used. Anything else needs a memory that no grammar has.
#include <algorithm>

#include "grammar/schema/emit.h"

namespace ingot::grammar {

namespace {

constexpr size_t kMaxValues = 10;  // 2^10 sets of them

// Adds the texts of a language; false where there are more than kMaxValues or one is long.
bool list_texts(SetAlgebra& sets, Expr language, std::vector<std::string>& out) {
  constexpr size_t kMaxBytes = 200;
  Regexes& pool = sets.pool();
  std::vector<std::pair<Expr, std::string>> waiting{{language, ""}};
  while (!waiting.empty()) {
    const auto [rest, text] = std::move(waiting.back());
    waiting.pop_back();
    sets.spend(256);
    if (pool.nullable(rest)) out.push_back(text);
    if (out.size() > kMaxValues || text.size() > kMaxBytes || waiting.size() > kMaxValues) return false;
    for (int byte = 0; byte < 256; byte++) {
      const Expr next = pool.derivative(rest, static_cast<uint8_t>(byte));
      if (next == kNothing || sets.is_empty(next)) continue;
      waiting.emplace_back(next, text + static_cast<char>(byte));
      if (waiting.size() > kMaxValues) return false;
    }
  }
  return true;
}

}  // namespace

// The values of a set as JSON writes them; false where they are not few, or have parts of their own.
bool SchemaEmitter::list_values(SetId set, std::vector<std::string>& out) {
  if (set == kNever) return true;
  if (set == kAlways) return false;
  const Values& values = sets_.values(set);
  if (!values.arrays.empty() || !values.objects.empty()) return false;
  if (values.null) out.emplace_back("null");
  if (values.yes) out.emplace_back("true");
  if (values.no) out.emplace_back("false");
  if (values.numbers.extent != Extent::kNone) {
    if (!values.numbers.integers) return false;
    Regexes& pool = sets_.pool();
    const Expr plain = pool.all_of({values.numbers.expr, sets_.numbers().plain_integer()});
    if (!list_texts(sets_, pool.without(plain, pool.literal("-0")), out)) return false;
  }
  if (values.texts.extent != Extent::kNone) {
    std::vector<std::string> texts;
    if (values.texts.extent == Extent::kAll || !list_texts(sets_, sets_.expr_of(values.texts), texts)) return false;
    for (const std::string& text : texts) append_json(out.emplace_back(), text);
  }
  return out.size() <= kMaxValues;
}

void SchemaEmitter::unique_array(Symbol rule, const ArrayShape& shape) {
  const auto refuse = [&](const char* why) {
    return GrammarError(sets_.place_of(shape.unique) + "/uniqueItems", "[schema] uniqueItems {}", why);
  };
  if (!shape.counts.empty()) throw refuse("beside contains is not supported");
  std::vector<std::vector<std::string>> of_place;  // the values of each item of the prefix, then of all others
  std::vector<std::string> all;
  for (size_t i = 0; i <= shape.prefix.size(); i++) {
    if (!list_values(shape.at(i), of_place.emplace_back())) {
      throw refuse("is supported only where the items can be no more than 10 values");
    }
    all.insert(all.end(), of_place.back().begin(), of_place.back().end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() > kMaxValues) throw refuse("is supported only where the items can be no more than 10 values");

  // The number of items is that of the bits: a state is the set alone.
  const size_t sets = size_t{1} << all.size();
  std::vector<Symbol> states;
  for (size_t used = 0; used < sets; used++) states.push_back(builder_.rule());
  for (size_t used = 0; used < sets; used++) {
    size_t count = 0;
    for (size_t i = 0; i < all.size(); i++) count += used >> i & 1;
    if (count >= shape.min && count <= shape.max) builder_.add(states[used], {});
    if (count >= shape.max) continue;
    for (const std::string& value : of_place[std::min(count, shape.prefix.size())]) {
      const auto at = static_cast<size_t>(std::lower_bound(all.begin(), all.end(), value) - all.begin());
      if ((used >> at & 1) != 0) continue;
      const Symbol item = notation_.constant(value), next = states[used | size_t{1} << at];
      if (count == 0) {
        builder_.add(states[used], {item, next});
      } else {
        builder_.add(states[used], {notation_.comma(), item, next});
      }
    }
  }
  builder_.add(rule, {notation_.open_array(), states[0], notation_.close_array()});
}

}  // namespace ingot::grammar
