// Union, intersection and complement of sets of JSON values, and the table of sets. Sets that are made of others are
// known by their number and looked into when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/json.h"
#include "grammar/limits.h"
#include "grammar/regex/regex.h"
#include "grammar/schema/numbers.h"
#include "grammar/schema/values.h"

namespace ingot::grammar {

class SetAlgebra {
 public:
  SetAlgebra(Regexes& pool, const Limits& limits);
  virtual ~SetAlgebra() = default;
  SetAlgebra(const SetAlgebra&) = delete;
  SetAlgebra& operator=(const SetAlgebra&) = delete;

  Regexes& pool() { return pool_; }
  NumberExprs& numbers() { return numbers_; }
  const NumberExprs& numbers() const { return numbers_; }
  Expr any_text() const { return any_text_; }

  // Sets by number; equal descriptions get the same.
  SetId schema_set(int32_t subschema);
  SetId all_of(std::vector<SetId> sets);
  SetId any_of(std::vector<SetId> sets);
  SetId none_of(SetId set);
  SetId constant(const Json& value);  // exactly this value; it must outlive this
  SetId of_values(Values values);     // a set that is known already

  // What is in the set; the reference stays valid. `tracked`: each shape also says which members and items are
  // evaluated. Throws GrammarError, LimitError.
  const Values& values(SetId set, bool tracked = false);

  // Values.
  Values all_values() const;
  Values exactly(const Json& value);
  Values intersect(const Values& a, const Values& b);
  Values unite(Values a, const Values& b);
  Values complement(const Values& a);
  TextSet intersect(const TextSet& a, const TextSet& b);
  TextSet unite(const TextSet& a, const TextSet& b);
  TextSet complement(const TextSet& a);
  TextSet texts_of(Expr expr) const { return {.extent = Extent::kSome, .expr = expr}; }
  Expr expr_of(const TextSet& set);  // over the characters themselves
  NumberSet intersect(const NumberSet& a, const NumberSet& b);
  NumberSet unite(const NumberSet& a, const NumberSet& b);
  NumberSet complement(const NumberSet& a);

  // The set of a member, named or not; kNever where it may not be there.
  SetId at(const ObjectShape& shape, std::string_view name);
  // True only where no value is in it for sure; looks `depth` levels into members and items.
  bool surely_empty(SetId set, int depth);
  bool surely_empty(const Values& values, int depth);
  bool surely_empty(const ArrayShape& shape, int depth);
  bool surely_empty(const ObjectShape& shape, int depth);
  bool is_empty(Expr expr);
  void spend(size_t steps);  // throws LimitError when all is spent

  // Where a subschema is, for errors.
  virtual std::string place_of(int32_t subschema) const = 0;

  static ArrayShape any_array() { return {}; }
  ObjectShape any_object() const { return {.others = {{any_text_, kAlways}}}; }

 protected:
  // The values of a schema.
  virtual Values schema_values(int32_t subschema, bool tracked) = 0;
  std::vector<KeyClass> intersect(const std::vector<KeyClass>& a, const std::vector<KeyClass>& b);

 private:
  struct Set {
    enum class Kind : uint8_t { kValues, kSchema, kAll, kAny, kNone, kConstant } kind;
    std::vector<SetId> parts{};
    int32_t subschema = 0;
    const Json* json = nullptr;
  };
  SetId intern(Set set);
  bool includes_all(const std::vector<KeyClass>& classes) const;
  ArrayShape intersect(const ArrayShape& a, const ArrayShape& b);
  bool intersect(const ObjectShape& a, const ObjectShape& b, ObjectShape& out);
  std::vector<ArrayShape> complement(const ArrayShape& a);
  std::vector<ObjectShape> complement(const ObjectShape& a);
  std::vector<ArrayShape> cross(const std::vector<ArrayShape>& a, const std::vector<ArrayShape>& b);
  std::vector<ObjectShape> cross(const std::vector<ObjectShape>& a, const std::vector<ObjectShape>& b);
  Values compute(SetId set, bool tracked);
  void hold(const Values& values);
  Expr names_expr(const ObjectShape& shape);

  Regexes& pool_;
  const Limits limits_;
  NumberExprs numbers_;
  Expr any_text_;
  size_t steps_left_;
  size_t bytes_ = 0;  // of the values that are known
  int depth_ = 0;
  int probes_ = 0;  // surely_empty() within surely_empty()
  std::vector<Set> sets_;
  std::map<std::pair<int, std::vector<SetId>>, SetId> made_;
  std::unordered_map<int32_t, SetId> of_schema_;
  std::unordered_map<const Json*, SetId> of_json_;
  struct Known {
    bool computing = false;
    std::unique_ptr<Values> values;
  };
  std::unordered_map<uint64_t, Known> known_;
};

}  // namespace ingot::grammar
