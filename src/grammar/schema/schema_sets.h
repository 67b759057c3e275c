// What a JSON Schema's keywords say, as sets of values: draft 7 and 2020-12, with draft 4's spelling of exclusive
// bounds. A keyword that cannot be followed exactly is refused with its JSON pointer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"
#include "grammar/schema/algebra.h"
#include "grammar/schema/document.h"

namespace ingot::grammar {

class SchemaSets : public SetAlgebra {
 public:
  // REQUIRES: `root` outlives it.
  SchemaSets(const Json& root, bool strict, Regexes& pool, const Limits& limits);

  SetId root() { return schema_set(0); }
  std::string place_of(int32_t subschema) const override { return document_.at(subschema).pointer; }

 protected:
  Values schema_values(int32_t subschema, bool tracked) override;

 private:
  // One schema object while it is read.
  struct Reading {
    int32_t index;
    const JsonObject& json;
    Draft draft;
    bool tracked;
  };
  [[noreturn]] void refuse(const Reading& at, std::string_view key, std::string_view why) const;
  bool is_known(Draft draft, std::string_view key) const;
  void check_keywords(const Reading& at) const;
  bool has_2020(const Reading& at) const { return at.draft == Draft::kUnknown || at.draft == Draft::kDraft2020; }
  bool has_old(const Reading& at) const { return at.draft != Draft::kDraft2020; }

  // A keyword's value, checked; nullptr or nullopt where it is absent.
  const Json* schema_of(const Reading& at, std::string_view key) const;
  const JsonObject* map_of(const Reading& at, std::string_view key) const;
  const JsonArray* list_of(const Reading& at, std::string_view key) const;
  std::optional<size_t> count_of(const Reading& at, std::string_view key) const;
  std::optional<std::string> text_of(const Reading& at, std::string_view key) const;
  std::optional<Decimal> number_of(const Reading& at, std::string_view key) const;
  std::vector<std::string> names_of(const Reading& at, std::string_view key, const Json& value) const;
  SetId child(const Reading& at, std::string_view key, const Json& json);
  SetId child(const Reading& at, std::string_view key, std::string_view name, const Json& json);

  Values of_type(const Reading& at, std::string_view name) const;
  Values of_types(const Reading& at) const;
  Values of_enum(const Reading& at, const JsonArray& list);
  NumberSet read_numbers(const Reading& at);
  TextSet read_texts(const Reading& at);
  Expr pattern(const Reading& at, std::string_view key, std::string_view text);
  ArrayShape read_array(const Reading& at);
  ObjectShape read_object(const Reading& at);
  void split_by_patterns(const Reading& at, ObjectShape& shape, const JsonObject& patterns);
  void limit_names(const Reading& at, ObjectShape& shape, const Json& schema);

  void apply(const Reading& at, Values& values);
  Values apply_one_of(const Reading& at, const JsonArray& list);
  Values apply_any_of(const Reading& at, const JsonArray& list);
  Values apply_if(const Reading& at, const Json& condition);
  void apply_dependencies(const Reading& at, Values& values);
  Values when_present(const std::string& name, SetId then, bool tracked);
  SetId requires_names(const std::vector<std::string>& names);
  void apply_unevaluated(const Reading& at, Values& values);
  void limit_unevaluated(ObjectShape& shape, SetId set);
  void limit_unevaluated(ArrayShape& shape, SetId set);

  SchemaDocument document_;
  const bool strict_;
  const size_t max_repeat_;
};

}  // namespace ingot::grammar
