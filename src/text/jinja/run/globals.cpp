#include "text/jinja/run/globals.h"

#include <ctime>

#include "base/utf8.h"
#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"

namespace ingot::jinja {
namespace {

constexpr size_t kMaxRange = 100'000;  // as the sandbox has it

Value range(Interp& ip, const Value&, Args& args) {
  check_args(ip, "range", args, 1, 3);
  int64_t parts[3] = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (args.positional[i].is_undefined()) ip.fail_undefined(args.positional[i]);
    if (!args.positional[i].is_integral()) {
      ip.fail(fmt::format("'{}' object cannot be interpreted as an integer", type_name(args.positional[i].kind())));
    }
    parts[i] = args.positional[i].integer();
    // Then no difference or step between them overflows.
    if (parts[i] > (int64_t{1} << 61) || parts[i] < -(int64_t{1} << 61)) ip.fail("range() argument too large");
  }
  if (args.positional.size() == 1) std::swap(parts[0], parts[1]);
  if (parts[2] == 0) ip.fail("range() arg 3 must not be zero");
  Value out(ip.make<Range>(parts[0], parts[1], parts[2]));
  if (out.as<Range>().size() > kMaxRange) {
    ip.fail(fmt::format("Range too big. At most {} items are allowed.", kMaxRange));
  }
  return out;
}

// dict(*args, **kwargs) into `out`.
void fill_dict(Interp& ip, Dict& out, const Args& args) {
  if (args.positional.size() > 1) ip.fail("dict expected at most 1 argument");
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is_undefined()) ip.fail_undefined(from);
    if (from.is(Kind::kDict)) {
      for (const auto& [key, value] : from.dict().entries) out.set(key, value);
    } else {
      Cursor cursor(ip, from);
      for (Value item; cursor.next(item);) {
        std::vector<Value> pair = ip.collect(item);
        if (pair.size() != 2) ip.fail("a dictionary is made of pairs");
        if (!is_key(pair[0])) ip.fail(fmt::format("unhashable type: '{}'", type_name(pair[0].kind())));
        out.set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, value] : args.named) out.set(key, value);
}

Value make_dict(Interp& ip, const Value&, Args& args) {
  Value out(ip.new_dict());
  fill_dict(ip, out.as<Dict>(), args);
  return out;
}

Value make_namespace(Interp& ip, const Value&, Args& args) {
  Value out = ip.keep(Value(ip.make<Dict>(Kind::kNamespace)));
  fill_dict(ip, out.as<Dict>(), args);
  for (const auto& [key, value] : out.as<Dict>().entries) {
    if (key.is_str() && key.text().bytes().starts_with("_")) ip.fail("a namespace stores no names that begin with '_'");
  }
  return out;
}

Value raise_exception(Interp& ip, const Value&, Args& args) {
  Params params(ip, "raise_exception", args, {"message"}, 1);
  ip.fail(to_text(ip, params[0]).bytes());
}

Value strftime_now(Interp& ip, const Value&, Args& args) {
  Params params(ip, "strftime_now", args, {"format"}, 1);
  // A space keeps an empty result apart from one that does not fit.
  std::string format = params.text(0).bytes() + " ";
  if (format.find('\0') != std::string::npos || format.size() > 1000) ip.fail("strftime_now(): bad format");
  std::time_t now = ip.now() ? *ip.now() : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[8192];
  size_t size = std::strftime(buffer, sizeof(buffer), format.c_str(), &local);
  if (size == 0) ip.fail("strftime_now(): the text is too long");
  return ip.str(std::string_view(buffer, size - 1));
}

Value joiner_call(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "joiner", args, 0, 0);
  Dict& state = self.as<Dict>();
  bool used = truthy(*state.find("used"));
  state.set(ip.str("used"), Value::boolean(true));
  return used ? *state.find("sep") : ip.str("");
}

Value make_joiner(Interp& ip, const Value&, Args& args) {
  Params params(ip, "joiner", args, {"sep"});
  Value state(ip.make<Dict>(Kind::kNamespace));
  state.as<Dict>().set(ip.str("sep"), params.has(0) ? params[0] : ip.str(", "));
  state.as<Dict>().set(ip.str("used"), Value::boolean(false));
  return ip.function("joiner", joiner_call, ip.keep(state));
}

Value make_cycler(Interp& ip, const Value&, Args& args) {
  if (args.positional.empty() || !args.named.empty()) ip.fail("at least one item has to be provided");
  return Value(ip.make<Cycler>(ip.tuple(std::move(args.positional))));
}

Value cycler_next(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "next", args, 0, 0);
  Cycler& cycler = self.as<Cycler>();
  Value out = cycler.items.items()[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.items().size();
  return out;
}

Value cycler_reset(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "reset", args, 0, 0);
  self.as<Cycler>().at = 0;
  return Value::none();
}

Value lipsum(Interp& ip, const Value&, Args&) { ip.fail("lipsum() is not supported"); }

constexpr MethodDef kGlobals[] = {
    {"range", range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"joiner", make_joiner},
    {"cycler", make_cycler},
    {"lipsum", lipsum},
};

}  // namespace

Value cycler_attribute(Interp& interp, const Value& obj, std::string_view name) {
  const Cycler& cycler = obj.as<Cycler>();
  if (name == "current") return cycler.items.items()[cycler.at];
  if (name == "items") return cycler.items;
  if (name == "pos") return Value::integer(static_cast<int64_t>(cycler.at));
  if (name == "next") return interp.function("next", cycler_next, obj);
  if (name == "reset") return interp.function("reset", cycler_reset, obj);
  return Value();
}

Value dict_fromkeys(Interp& interp, const Value&, Args& args) {
  check_args(interp, "fromkeys", args, 1, 2);
  Value out(interp.new_dict());
  Value value = args.positional.size() > 1 ? args.positional[1] : Value::none();
  Cursor cursor(interp, args.positional[0]);
  for (Value key; cursor.next(key);) {
    if (!is_key(key)) interp.fail("unhashable type");
    out.as<Dict>().set(key, value);
  }
  return out;
}

Value global_function(Interp& interp, std::string_view name) { return find_method(interp, kGlobals, Value(), name); }

}  // namespace ingot::jinja
