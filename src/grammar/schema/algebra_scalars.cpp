// Union, intersection and complement of texts, numbers and whole sets of values.
#include <algorithm>
#include <iterator>

#include "grammar/schema/algebra.h"

namespace ingot::grammar {

const Member* ObjectShape::find(std::string_view name) const {
  for (const Member& member : members) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

Values SetAlgebra::all_values() const {
  Values all;
  all.null = all.yes = all.no = true;
  all.numbers.extent = all.texts.extent = Extent::kAll;
  all.arrays.push_back(any_array());
  all.objects.push_back(any_object());
  return all;
}

Values SetAlgebra::exactly(const Json& value) {
  Values out;
  if (value.is_null()) {
    out.null = true;
  } else if (value.is_bool()) {
    (value.get_bool() ? out.yes : out.no) = true;
  } else if (value.is_number()) {
    const Decimal decimal = decimal_of(value);
    out.numbers = {.extent = Extent::kSome, .expr = numbers_.exactly(decimal), .integers = decimal.is_integer()};
  } else if (value.is_string()) {
    out.texts = texts_of(pool_.literal(value.get_string()));
  } else if (value.is_array()) {
    ArrayShape shape;
    for (const Json& item : value.get_array()) shape.prefix.push_back(constant(item));
    shape.rest = kNever;
    shape.min = shape.max = shape.prefix.size();
    out.arrays.push_back(std::move(shape));
  } else {
    ObjectShape shape;
    for (const auto& member : value.get_object()) {
      shape.members.push_back(
          {.name = std::string(member.key()), .set = constant(member.value()), .required = true, .placed = true});
    }
    out.objects.push_back(std::move(shape));
  }
  return out;
}

Expr SetAlgebra::expr_of(const TextSet& set) {
  if (set.extent == Extent::kNone) return kNothing;
  if (set.extent == Extent::kAll) return any_text_;
  return set.by_length ? pool_.repeat(pool_.any_char(), set.min, set.max) : set.expr;
}

TextSet SetAlgebra::intersect(const TextSet& a, const TextSet& b) {
  if (a.extent == Extent::kNone || b.extent == Extent::kAll) return a;
  if (b.extent == Extent::kNone || a.extent == Extent::kAll) return b;
  if (a.by_length && b.by_length) {
    TextSet out = a;
    out.min = std::max(a.min, b.min);
    out.max = std::min(a.max, b.max);
    return out.min <= out.max ? out : TextSet{};
  }
  return texts_of(pool_.all_of({expr_of(a), expr_of(b)}));
}

TextSet SetAlgebra::unite(const TextSet& a, const TextSet& b) {
  if (a.extent == Extent::kNone || b.extent == Extent::kAll) return b;
  if (b.extent == Extent::kNone || a.extent == Extent::kAll) return a;
  return texts_of(pool_.any_of({expr_of(a), expr_of(b)}));
}

TextSet SetAlgebra::complement(const TextSet& a) {
  if (a.extent == Extent::kNone) return {.extent = Extent::kAll};
  if (a.extent == Extent::kAll) return {};
  if (!a.by_length) return texts_of(pool_.without(any_text_, a.expr));
  TextSet out;
  if (a.min > 0) out = {.extent = Extent::kSome, .by_length = true, .min = 0, .max = a.min - 1};
  if (a.max == kUnbounded) return out;
  return unite(out, {.extent = Extent::kSome, .by_length = true, .min = a.max + 1, .max = kUnbounded});
}

NumberSet SetAlgebra::intersect(const NumberSet& a, const NumberSet& b) {
  if (a.extent == Extent::kNone || b.extent == Extent::kAll) return a;
  if (b.extent == Extent::kNone || a.extent == Extent::kAll) return b;
  return {.extent = Extent::kSome, .expr = pool_.all_of({a.expr, b.expr}), .integers = a.integers || b.integers};
}

NumberSet SetAlgebra::unite(const NumberSet& a, const NumberSet& b) {
  if (a.extent == Extent::kNone || b.extent == Extent::kAll) return b;
  if (b.extent == Extent::kNone || a.extent == Extent::kAll) return a;
  return {.extent = Extent::kSome, .expr = pool_.any_of({a.expr, b.expr}), .integers = a.integers && b.integers};
}

NumberSet SetAlgebra::complement(const NumberSet& a) {
  if (a.extent == Extent::kNone) return {.extent = Extent::kAll};
  if (a.extent == Extent::kAll) return {};
  return {.extent = Extent::kSome, .expr = pool_.without(numbers_.all(), a.expr)};
}

Values SetAlgebra::intersect(const Values& a, const Values& b) {
  Values out;
  out.null = a.null && b.null;
  out.yes = a.yes && b.yes;
  out.no = a.no && b.no;
  out.numbers = intersect(a.numbers, b.numbers);
  out.texts = intersect(a.texts, b.texts);
  out.arrays = cross(a.arrays, b.arrays);
  out.objects = cross(a.objects, b.objects);
  return out;
}

Values SetAlgebra::unite(Values a, const Values& b) {
  a.null |= b.null;
  a.yes |= b.yes;
  a.no |= b.no;
  a.numbers = unite(a.numbers, b.numbers);
  a.texts = unite(a.texts, b.texts);
  spend(a.arrays.size() + b.arrays.size() + a.objects.size() + b.objects.size());
  a.arrays.insert(a.arrays.end(), b.arrays.begin(), b.arrays.end());
  a.objects.insert(a.objects.end(), b.objects.begin(), b.objects.end());
  return a;
}

Values SetAlgebra::complement(const Values& a) {
  Values out;
  out.null = !a.null;
  out.yes = !a.yes;
  out.no = !a.no;
  out.numbers = complement(a.numbers);
  out.texts = complement(a.texts);
  out.arrays.push_back(any_array());
  for (const ArrayShape& shape : a.arrays) out.arrays = cross(out.arrays, complement(shape));
  out.objects.push_back(any_object());
  for (const ObjectShape& shape : a.objects) out.objects = cross(out.objects, complement(shape));
  return out;
}

}  // namespace ingot::grammar
