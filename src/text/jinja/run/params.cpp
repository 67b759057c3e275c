// Arguments of filters, tests and functions, and the lookup of all three by name.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/parse/literal.h"
#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"

namespace ingot::jinja {

Params::Params(Interp& interp, std::string_view function, Args& args, std::initializer_list<std::string_view> names,
               size_t required)
    : interp_(interp), function_(function) {
  if (args.positional.size() > names.size()) {
    interp.fail(
        fmt::format("{}() takes at most {} argument(s), {} given", function, names.size(), args.positional.size()));
  }
  std::move(args.positional.begin(), args.positional.end(), values_);
  for (auto& [name, value] : args.named) {
    auto it = std::find(names.begin(), names.end(), name.text().view());
    if (it == names.end()) {
      interp.fail(fmt::format("{}() got an unexpected keyword argument '{}'", function,
                              utf8_printable(name.text().view(), 40)));
    }
    Value& slot = values_[it - names.begin()];
    if (!slot.is_missing()) interp.fail(fmt::format("{}() got multiple values for argument '{}'", function, *it));
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i].is_missing()) interp.fail(fmt::format("{}() misses the argument '{}'", function, names.begin()[i]));
  }
}

int64_t Params::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (values_[i].is_undefined()) interp_.fail_undefined(values_[i]);
  if (!values_[i].is_integral()) {
    interp_.fail(
        fmt::format("{}(): '{}' cannot be interpreted as an integer", function_, type_name(values_[i].kind())));
  }
  return values_[i].integer();
}

const Text& Params::text(size_t i) const {
  if (!values_[i].is_str()) {
    interp_.fail(fmt::format("{}(): expected str, not {}", function_, type_name(values_[i].kind())));
  }
  return values_[i].text();
}

void check_args(Interp& interp, std::string_view function, const Args& args, size_t low, size_t high) {
  if (!args.named.empty()) interp.fail(fmt::format("{}() takes no keyword arguments", function));
  size_t n = args.positional.size();
  if (n < low || n > high) interp.fail(fmt::format("{}() takes {} to {} arguments, {} given", function, low, high, n));
}

const FilterDef* find_filter(std::string_view name) {
  for (std::span<const FilterDef> table :
       {string_filters(), number_filters(), sequence_filters(), generator_filters()}) {
    for (const FilterDef& def : table) {
      if (def.name == name) return &def;
    }
  }
  return nullptr;
}

Value find_method(Interp& interp, std::span<const MethodDef> table, const Value& obj, std::string_view name) {
  for (const MethodDef& def : table) {
    if (def.name == name) return interp.function(def.name, def.callee, obj);
  }
  return Value();
}

Value apply_filter(Interp& interp, const FilterDef& filter, const Value& input, Args& args) {
  if (filter.apply == nullptr) interp.fail(fmt::format("the filter '{}' is not supported", filter.name));
  return filter.apply(interp, input, args);
}

Value apply_filter(Interp& interp, const Value& name, const Value& input, Args& args) {
  const FilterDef* filter = name.is_str() ? find_filter(name.text().view()) : nullptr;
  if (filter == nullptr) {
    interp.fail(name.is_str() ? "No filter named '" + utf8_printable(name.text().view(), 40) + "'"
                              : "the name of a filter must be a str");
  }
  Interp::Deeper deeper(interp);
  return apply_filter(interp, *filter, input, args);
}

bool apply_test(Interp& interp, const Value& name, const Value& input, Args& args) {
  const TestDef* test = name.is_str() ? find_test(name.text().view()) : nullptr;
  if (test == nullptr) {
    interp.fail(name.is_str() ? "No test named '" + utf8_printable(name.text().view(), 40) + "'"
                              : "the name of a test must be a str");
  }
  return test->apply(interp, input, args);
}

std::vector<Value> attribute_path(Interp& interp, const Value& attribute) {
  if (attribute.is_missing() || attribute.is_none()) return {};
  if (!attribute.is_str()) return {attribute};
  std::vector<Value> path;
  const Text& text = attribute.text();
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.bytes().find('.', begin), text.size());
    std::string_view part = text.view().substr(begin, end - begin);
    bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    std::optional<int64_t> number = digits ? parse_int(part, 10) : std::nullopt;
    path.push_back(number ? Value::integer(*number) : interp.str(text.sub(begin, end)));
    begin = end + 1;
  }
  return path;
}

Value follow_path(Interp& interp, Value item, const std::vector<Value>& path, const Value& fallback) {
  for (const Value& part : path) {
    item = get_item(interp, item, part);
    if (item.is_undefined() && !fallback.is_missing() && !fallback.is_none()) item = fallback;
  }
  return item;
}

Value lower_key(Interp& interp, const Value& value) {
  return value.is_str() ? change_case(interp, value, false) : value;
}

}  // namespace ingot::jinja
