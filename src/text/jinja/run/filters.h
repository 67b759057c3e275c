// The filters, tests, methods and global functions of templates, by name.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "text/jinja/value/value.h"

namespace ingot::jinja {

struct FilterDef {
  std::string_view name;
  Value (*apply)(Interp& interp, const Value& input, Args& args);  // none: of jinja2, but for HTML; refused by name
};
struct TestDef {
  std::string_view name;
  bool (*apply)(Interp& interp, const Value& input, Args& args);
};

Value apply_filter(Interp& interp, const FilterDef& filter, const Value& input, Args& args);

// nullptr when there is none.
const FilterDef* find_filter(std::string_view name);
const TestDef* find_test(std::string_view name);

// The parts of the table, one for each file of filters.
std::span<const FilterDef> string_filters();
std::span<const FilterDef> number_filters();
std::span<const FilterDef> sequence_filters();
std::span<const FilterDef> generator_filters();

// A method or attribute of a value that is no dict entry; kMissing when it has none of that name, undefined when the
// sandbox hides it.
Value find_attribute(Interp& interp, const Value& obj, std::string_view name);
Value string_method(Interp& interp, const Value& obj, std::string_view name);
Value container_method(Interp& interp, const Value& obj, std::string_view name);
Value engine_attribute(Interp& interp, const Value& obj, std::string_view name);

// A method table's entry, and its lookup: a bound method, or kMissing.
struct MethodDef {
  std::string_view name;
  Callee callee;
};
Value find_method(Interp& interp, std::span<const MethodDef> table, const Value& obj, std::string_view name);

// namespace, dict, range, raise_exception, …; kMissing for other names.
Value global_function(Interp& interp, std::string_view name);

// Arguments in the order of their parameters. Error for what is unknown, given twice, missing or too much.
class Params {
 public:
  Params(Interp& interp, std::string_view function, Args& args, std::initializer_list<std::string_view> names,
         size_t required = 0);
  bool has(size_t i) const { return !values_[i].is_missing(); }
  bool given(size_t i) const { return has(i) && !values_[i].is_none(); }  // and not None
  const Value& operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool fallback) const { return has(i) ? truthy(values_[i]) : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;  // Error when it is no int
  const Text& text(size_t i) const;                   // Error when it is no str

 private:
  static constexpr size_t kMax = 6;
  Interp& interp_;
  std::string_view function_;
  Value values_[kMax];
};

// Positional arguments only, between `low` and `high` of them.
void check_args(Interp& interp, std::string_view function, const Args& args, size_t low, size_t high);

// Filters and tests by a name that is only known now, as map() and select() take them.
Value apply_filter(Interp& interp, const Value& name, const Value& input, Args& args);
bool apply_test(Interp& interp, const Value& name, const Value& input, Args& args);
// The attribute of `map(attribute="a.b.0")`: a path of names and numbers.
std::vector<Value> attribute_path(Interp& interp, const Value& attribute);
Value follow_path(Interp& interp, Value item, const std::vector<Value>& path, const Value& fallback = Value());
Value lower_key(Interp& interp, const Value& value);  // a str in lower case, anything else as it is

// `format % args` and format.format(args).
Value percent_format(Interp& interp, const Value& format, const Value& args);
Value brace_format(Interp& interp, const Value& format, const Args& args);
Value change_case(Interp& interp, const Value& str, bool upper);

}  // namespace ingot::jinja
