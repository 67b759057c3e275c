// The methods and attributes of containers, numbers and the engine's own objects.
#include <algorithm>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/globals.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"

namespace ingot::jinja {
namespace {

Value dict_get(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "get", args, 1, 2);
  if (!is_key(args.positional[0])) ip.fail("unhashable type");
  if (const Value* found = self.dict().find(args.positional[0])) return *found;
  return args.positional.size() > 1 ? args.positional[1] : Value::none();
}

template <View::Part part>
Value dict_view(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "items", args, 0, 0);
  Value view(ip.make<View>(self, part));
  nest(view.as<View>(), self);
  return view;
}

Value dict_copy(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "copy", args, 0, 0);
  Value out(ip.new_dict());
  for (const auto& [key, value] : self.dict().entries) out.as<Dict>().set(key, value);
  return out;
}

Value list_copy(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "copy", args, 0, 0);
  return ip.list(self.items());
}

Value list_count(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "count", args, 1, 1);
  int64_t n = 0;
  for (const Value& item : ip.collect(self)) n += equals(ip, item, args.positional[0]) ? 1 : 0;
  return Value::integer(n);
}

Value list_index(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "index", args, 1, 3);
  std::vector<Value> items = ip.collect(self);
  int64_t n = static_cast<int64_t>(items.size());
  auto bound = [&](size_t i, int64_t fallback) {
    if (args.positional.size() <= i) return fallback;
    if (!args.positional[i].is_integral()) ip.fail("slice indices must be integers");
    int64_t v = args.positional[i].integer();
    return v < 0 ? std::max<int64_t>(v + n, 0) : std::min(v, n);
  };
  for (int64_t i = bound(1, 0), end = bound(2, n); i < end; ++i) {
    if (equals(ip, items[static_cast<size_t>(i)], args.positional[0])) return Value::integer(i);
  }
  ip.fail("the value is not in the list");
}

constexpr MethodDef kDictMethods[] = {{"get", dict_get},
                                      {"items", dict_view<View::kItems>},
                                      {"keys", dict_view<View::kKeys>},
                                      {"values", dict_view<View::kValues>},
                                      {"copy", dict_copy},
                                      {"fromkeys", dict_fromkeys}};
constexpr MethodDef kListMethods[] = {{"count", list_count}, {"index", list_index}, {"copy", list_copy}};
// They would change what they belong to: the sandbox hides them.
constexpr std::string_view kDictHidden[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListHidden[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};

Value hidden(Interp& interp, std::span<const std::string_view> names, const Value& obj, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) return Value();
  return Value::undefined(interp.str(name), obj.kind());
}

Value number_itself(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "conjugate", args, 0, 0);
  return self;
}

Value bit_length(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "bit_length", args, 0, 0);
  int64_t value = self.integer();
  uint64_t rest = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int64_t bits = 0;
  for (; rest != 0; rest >>= 1) ++bits;
  return Value::integer(bits);
}

Value is_integer(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "is_integer", args, 0, 0);
  double value = self.real();
  return Value::boolean(value == static_cast<double>(static_cast<int64_t>(value)));
}

Value number_attribute(Interp& interp, const Value& obj, std::string_view name) {
  bool integral = obj.is_integral();
  if (name == "conjugate") return interp.function("conjugate", number_itself, obj);
  if (name == "real") return integral ? Value::integer(obj.integer()) : obj;
  if (name == "imag") return integral ? Value::integer(0) : Value::real(0);
  if (integral && name == "numerator") return Value::integer(obj.integer());
  if (integral && name == "denominator") return Value::integer(1);
  if (integral && name == "bit_length") return interp.function("bit_length", bit_length, obj);
  if (!integral && name == "is_integer") return interp.function("is_integer", is_integer, obj);
  return Value();
}

Value loop_cycle(Interp& ip, const Value& self, Args& args) {
  if (!args.named.empty() || args.positional.empty()) ip.fail("no items for cycling given");
  size_t index = static_cast<size_t>(std::max<int64_t>(self.as<Loop>().index0, 0));
  return args.positional[index % args.positional.size()];
}

Value loop_changed(Interp& ip, const Value& self, Args& args) {
  Value now = ip.tuple(std::move(args.positional));
  Loop& loop = self.as<Loop>();
  if (!loop.last_changed.is_missing() && equals(ip, loop.last_changed, now)) return Value::boolean(false);
  if (loop.last_changed.is_missing()) ip.keep(self);  // the value may hold the loop
  loop.last_changed = now;
  return Value::boolean(true);
}

Value loop_attribute(Interp& interp, const Value& obj, std::string_view name) {
  Loop& loop = obj.as<Loop>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.peek().is_missing());
  if (name == "length") return Value::integer(loop.length(interp));
  if (name == "revindex") return Value::integer(loop.length(interp) - loop.index0);
  if (name == "revindex0") return Value::integer(loop.length(interp) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? Value::undefined() : loop.before;
  if (name == "nextitem") return loop.peek().is_missing() ? Value::undefined() : loop.peek();
  if (name == "cycle") return interp.function("cycle", loop_cycle, obj);
  if (name == "changed") return interp.function("changed", loop_changed, obj);
  return Value();
}

Value macro_attribute(Interp& interp, const Value& obj, std::string_view name) {
  const MacroDef& def = *obj.as<Macro>().def;
  if (name == "name") return def.name.empty() ? Value::none() : interp.str(def.name);
  if (name == "caller") return Value::boolean(def.caller >= 0);
  if (name == "catch_kwargs") return Value::boolean(def.kwargs >= 0);
  if (name == "catch_varargs") return Value::boolean(def.varargs >= 0);
  if (name == "explicit_caller") return Value::boolean(def.explicit_caller);
  if (name != "arguments") return Value();
  std::vector<Value> names;
  for (const Param& param : def.params) names.push_back(interp.str(param.name));
  return interp.tuple(std::move(names));
}

}  // namespace

Value container_method(Interp& interp, const Value& obj, std::string_view name) {
  switch (obj.kind()) {
    case Kind::kDict: {
      Value found = find_method(interp, kDictMethods, obj, name);
      return found.is_missing() ? hidden(interp, kDictHidden, obj, name) : found;
    }
    case Kind::kList: {
      Value found = find_method(interp, kListMethods, obj, name);
      return found.is_missing() ? hidden(interp, kListHidden, obj, name) : found;
    }
    case Kind::kTuple:
      if (obj.as<List>().group && name == "grouper") return obj.items()[0];
      if (obj.as<List>().group && name == "list") return obj.items()[1];
      return name == "copy" ? Value() : find_method(interp, kListMethods, obj, name);
    case Kind::kRange: {
      const Range& range = obj.as<Range>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      if (name == "step") return Value::integer(range.step);
      return name == "copy" ? Value() : find_method(interp, kListMethods, obj, name);
    }
    default:
      return Value();
  }
}

Value engine_attribute(Interp& interp, const Value& obj, std::string_view name) {
  switch (obj.kind()) {
    case Kind::kNamespace: {
      const Value* found = obj.as<Dict>().find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop:
      return loop_attribute(interp, obj, name);
    case Kind::kMacro:
      return macro_attribute(interp, obj, name);
    case Kind::kCycler:
      return cycler_attribute(interp, obj, name);
    case Kind::kFunction:
      if (obj.as<Function>().name == "dict" && name == "fromkeys") {
        return interp.function("fromkeys", dict_fromkeys, Value());
      }
      return Value();
    default:
      return Value();
  }
}

Value find_attribute(Interp& interp, const Value& obj, std::string_view name) {
  switch (obj.kind()) {
    case Kind::kStr:
      return string_method(interp, obj, name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return container_method(interp, obj, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return number_attribute(interp, obj, name);
    default:
      return engine_attribute(interp, obj, name);
  }
}

}  // namespace ingot::jinja
