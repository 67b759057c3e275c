// Reading a schema object: which keywords there are, what their values may be, and the order of it all.
#include <algorithm>
#include <array>
#include <cmath>

#include "grammar/schema/schema_sets.h"

namespace ingot::grammar {

namespace {

// Keywords of every draft that is read.
constexpr std::array<std::string_view, 45> kKeywords = {"$schema",
                                                        "$id",
                                                        "$ref",
                                                        "$comment",
                                                        "definitions",
                                                        "title",
                                                        "description",
                                                        "default",
                                                        "examples",
                                                        "readOnly",
                                                        "writeOnly",
                                                        "type",
                                                        "enum",
                                                        "const",
                                                        "multipleOf",
                                                        "maximum",
                                                        "exclusiveMaximum",
                                                        "minimum",
                                                        "exclusiveMinimum",
                                                        "maxLength",
                                                        "minLength",
                                                        "pattern",
                                                        "format",
                                                        "items",
                                                        "maxItems",
                                                        "minItems",
                                                        "uniqueItems",
                                                        "contains",
                                                        "maxProperties",
                                                        "minProperties",
                                                        "required",
                                                        "properties",
                                                        "patternProperties",
                                                        "additionalProperties",
                                                        "propertyNames",
                                                        "if",
                                                        "then",
                                                        "else",
                                                        "allOf",
                                                        "anyOf",
                                                        "oneOf",
                                                        "not",
                                                        "contentMediaType",
                                                        "contentEncoding",
                                                        "contentSchema"};
constexpr std::array<std::string_view, 4> kOld = {"additionalItems", "dependencies", "id", "$defs"};
constexpr std::array<std::string_view, 14> k2020 = {"$defs",
                                                    "$anchor",
                                                    "$dynamicRef",
                                                    "$dynamicAnchor",
                                                    "$vocabulary",
                                                    "prefixItems",
                                                    "minContains",
                                                    "maxContains",
                                                    "dependentRequired",
                                                    "dependentSchemas",
                                                    "unevaluatedItems",
                                                    "unevaluatedProperties",
                                                    "deprecated",
                                                    "$recursiveAnchor"};

template <class List>
bool is_in(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

}  // namespace

SchemaSets::SchemaSets(const Json& root, bool strict, Regexes& pool, const Limits& limits)
    : SetAlgebra(pool, limits), document_(root, limits.nodes), strict_(strict), max_repeat_(kUnbounded - 2) {}

void SchemaSets::refuse(const Reading& at, std::string_view key, std::string_view why) const {
  std::string place = document_.at(at.index).pointer;
  if (!key.empty()) place.append(1, '/').append(SchemaDocument::escaped(key));
  throw GrammarError(place, "[schema] {}{}{}", key, key.empty() ? "" : ": ", why);
}

bool SchemaSets::is_known(Draft draft, std::string_view key) const {
  if (is_in(kKeywords, key)) return true;
  if (draft != Draft::kDraft2020 && is_in(kOld, key)) return true;
  return (draft == Draft::kDraft2020 || draft == Draft::kUnknown) && is_in(k2020, key);
}

void SchemaSets::check_keywords(const Reading& at) const {
  if (find(at.json, "$recursiveRef") != nullptr) refuse(at, "$recursiveRef", "is not supported");
  if (!strict_) return;
  for (const auto& member : at.json) {
    if (!is_known(at.draft, member.key())) refuse(at, member.key(), "is no keyword that is known");
  }
}

const Json* SchemaSets::schema_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value != nullptr && !value->is_object() && !value->is_bool()) refuse(at, key, "is no schema");
  return value;
}

const JsonObject* SchemaSets::map_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) refuse(at, key, "is no object");
  return &value->get_object();
}

const JsonArray* SchemaSets::list_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) refuse(at, key, "is no array");
  return &value->get_array();
}

std::optional<size_t> SchemaSets::count_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(at, key, "is no number");
  double number = 0;
  if (value->is_int64()) number = static_cast<double>(value->get_int64());
  if (value->is_uint64()) number = static_cast<double>(value->get_uint64());
  if (value->is_double()) number = value->get_double();
  if (number < 0 || number != std::floor(number)) refuse(at, key, "is no whole number of 0 or more");
  return number >= static_cast<double>(max_repeat_) ? max_repeat_ : static_cast<size_t>(number);
}

std::optional<std::string> SchemaSets::text_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(at, key, "is no string");
  return std::string(value->get_string());
}

std::optional<Decimal> SchemaSets::number_of(const Reading& at, std::string_view key) const {
  const Json* value = find(at.json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(at, key, "is no number");
  return decimal_of(*value);
}

std::vector<std::string> SchemaSets::names_of(const Reading& at, std::string_view key, const Json& value) const {
  if (!value.is_array()) refuse(at, key, "is no array");
  std::vector<std::string> names;
  for (const Json& name : value.get_array()) {
    if (!name.is_string()) refuse(at, key, "has an element that is no string");
    names.emplace_back(name.get_string());
  }
  return names;
}

SetId SchemaSets::child(const Reading& at, std::string_view key, const Json& json) {
  if (json.is_bool()) return json.get_bool() ? kAlways : kNever;
  if (!json.is_object()) refuse(at, key, "is no schema");
  return json.get_object().empty() ? kAlways : schema_set(document_.child(at.index, json, key));
}

SetId SchemaSets::child(const Reading& at, std::string_view key, std::string_view name, const Json& json) {
  if (json.is_bool()) return json.get_bool() ? kAlways : kNever;
  if (!json.is_object()) refuse(at, key, "has an element that is no schema");
  return json.get_object().empty() ? kAlways : schema_set(document_.child(at.index, json, key, name));
}

Values SchemaSets::schema_values(int32_t index, bool tracked) {
  const Json& json = *document_.at(index).json;
  if (json.is_bool()) return json.get_bool() ? all_values() : Values{};
  const Reading at{index, json.get_object(), document_.draft(index), tracked};
  try {
    check_keywords(at);
    const bool only_reference = at.draft == Draft::kDraft4 || at.draft == Draft::kDraft7;
    if (only_reference && find(at.json, "$ref") != nullptr) {
      const int32_t target = document_.resolve(index, *text_of(at, "$ref"), false);
      return values(schema_set(target), tracked);
    }
    Reading own = at;
    own.tracked =
        tracked || find(at.json, "unevaluatedProperties") != nullptr || find(at.json, "unevaluatedItems") != nullptr;
    Values out = of_types(own);
    if (out.numbers.extent != Extent::kNone) out.numbers = intersect(out.numbers, read_numbers(own));
    if (out.texts.extent != Extent::kNone) out.texts = intersect(out.texts, read_texts(own));
    if (!out.arrays.empty()) out.arrays = {read_array(own)};
    if (!out.objects.empty()) out.objects = {read_object(own)};
    if (const Json* value = find(at.json, "const"); value != nullptr && at.draft != Draft::kDraft4) {
      out = intersect(exactly(*value), out);
    }
    if (const JsonArray* list = list_of(at, "enum")) out = intersect(of_enum(at, *list), out);
    apply(own, out);
    apply_unevaluated(own, out);
    return out;
  } catch (const LimitError& error) {
    throw GrammarError(document_.at(index).pointer, "{}", error.what());
  } catch (const GrammarError& error) {
    if (!error.place().empty()) throw;
    throw GrammarError(document_.at(index).pointer, "{}", error.what());
  }
}

}  // namespace ingot::grammar
