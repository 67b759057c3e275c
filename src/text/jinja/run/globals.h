// The functions that every template knows, and the objects that they make.
#pragma once

#include <string_view>

#include "text/jinja/value/value.h"

namespace ingot::jinja {

struct Cycler : Obj {
  explicit Cycler(Value v) : Obj(Kind::kCycler), items(std::move(v)) {}
  Value items;  // a tuple, not empty
  size_t at = 0;
};
Value cycler_attribute(Interp& interp, const Value& obj, std::string_view name);

Value dict_fromkeys(Interp& interp, const Value& self, Args& args);

}  // namespace ingot::jinja
