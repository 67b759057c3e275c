// The keywords of types, numbers and strings.
#include <algorithm>

#include "grammar/regex/pattern.h"
#include "grammar/schema/formats.h"
#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {

Values SchemaSets::of_type(const Reading& at, std::string_view name) const {
  Values out;
  if (name == "null") {
    out.null = true;
  } else if (name == "boolean") {
    out.yes = out.no = true;
  } else if (name == "number") {
    out.numbers.extent = Extent::kAll;
  } else if (name == "integer") {
    out.numbers = {.extent = Extent::kSome, .expr = numbers().integers(), .integers = true};
  } else if (name == "string") {
    out.texts.extent = Extent::kAll;
  } else if (name == "array") {
    out.arrays.push_back(any_array());
  } else if (name == "object") {
    out.objects.push_back(any_object());
  } else if (name == "any" && at.draft != Draft::kDraft2020 && at.draft != Draft::kDraft7) {
    return all_values();
  } else {
    refuse(at, "type", "an unknown type");
  }
  return out;
}

Values SchemaSets::of_types(const Reading& at) const {
  const Json* type = find(at.json, "type");
  if (type == nullptr) return all_values();
  if (type->is_string()) return of_type(at, std::string_view(type->get_string()));
  Values out;
  for (const std::string& name : names_of(at, "type", *type)) {
    const Values one = of_type(at, name);
    out.null |= one.null;
    out.yes |= one.yes;
    out.no |= one.no;
    if (one.numbers.extent > out.numbers.extent) out.numbers = one.numbers;
    if (one.texts.extent > out.texts.extent) out.texts = one.texts;
    if (out.arrays.empty()) out.arrays = one.arrays;
    if (out.objects.empty()) out.objects = one.objects;
  }
  return out;
}

Values SchemaSets::of_enum(const Reading& at, const JsonArray& list) {
  if (list.empty()) refuse(at, "enum", "is empty");
  spend(list.size());
  Values out;
  std::vector<std::string> texts;
  for (const Json& value : list) {
    if (value.is_string()) {
      texts.emplace_back(value.get_string());
    } else {
      out = unite(std::move(out), exactly(value));
    }
  }
  if (!texts.empty()) out.texts = texts_of(pool().literals(std::move(texts)));
  return out;
}

NumberSet SchemaSets::read_numbers(const Reading& at) {
  NumberSet out{.extent = Extent::kAll};
  const auto limit = [&](Expr expr, bool integers = false) {
    out = intersect(out, {.extent = Extent::kSome, .expr = expr, .integers = integers});
  };
  const auto is_flag = [&](std::string_view key) {  // draft 4: exclusiveMinimum says how minimum is meant
    const Json* value = find(at.json, key);
    return value != nullptr && value->is_bool() && has_old(at);
  };
  const auto bound = [&](std::string_view key, std::string_view exclusive, bool low) {
    const bool flag = is_flag(exclusive);
    if (const auto value = number_of(at, key)) {
      const bool open = flag && find(at.json, exclusive)->get_bool();
      limit(low ? numbers().at_least({*value, open}) : numbers().at_most({*value, open}));
    }
    if (flag) return;
    if (const auto value = number_of(at, exclusive)) {
      limit(low ? numbers().at_least({*value, true}) : numbers().at_most({*value, true}));
    }
  };
  bound("minimum", "exclusiveMinimum", true);
  bound("maximum", "exclusiveMaximum", false);
  if (const auto step = number_of(at, "multipleOf")) {
    if (step->is_zero() || step->negative) refuse(at, "multipleOf", "is not above 0");
    const std::optional<Expr> multiples = numbers().multiples(*step);
    if (!multiples) refuse(at, "multipleOf", "has too many digits");
    limit(*multiples, step->is_integer());
  }
  return out;
}

Expr SchemaSets::pattern(const Reading& at, std::string_view key, std::string_view text) {
  try {
    return parse_pattern(pool(), text, {.search = true});
  } catch (const LimitError&) {
    throw;
  } catch (const Error& error) {
    refuse(at, key, error.what());
  }
}

TextSet SchemaSets::read_texts(const Reading& at) {
  TextSet out{.extent = Extent::kAll};
  const std::optional<size_t> least = count_of(at, "minLength"), most = count_of(at, "maxLength");
  if (least.value_or(0) > 0 || most) {
    const auto min = static_cast<uint32_t>(least.value_or(0));
    const uint32_t max = most && *most < max_repeat_ ? static_cast<uint32_t>(*most) : kUnbounded;
    if (min > max) return {};
    out = {.extent = Extent::kSome, .by_length = true, .min = min, .max = max};
  }
  if (const auto text = text_of(at, "pattern")) out = intersect(out, texts_of(pattern(at, "pattern", *text)));
  if (const auto name = text_of(at, "format")) {
    if (const std::optional<Expr> format = format_expr(pool(), *name)) out = intersect(out, texts_of(*format));
  }
  return out;
}

}  // namespace ingot::grammar
