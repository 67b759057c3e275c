#include "text/jinja/run/interp.h"

#include "base/utf8.h"
#include "text/jinja/run/filters.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {

Interp::Interp(const Program& program, Budget& budget, std::optional<std::time_t> now)
    : program_(program), budget_(budget), now_(now), variables_(program.names.size()) {}

Interp::~Interp() {
  for (Value& value : kept_) value.obj()->unlink();
}

Text Interp::run() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].is_missing()) variables_[i] = global_function(*this, program_.names[i]);
  }
  Text out;
  out_ = &out;
  Value root(make<Activation>(Value(), program_.routine.slots));
  enter(program_.frame, root.as<Activation>());
  exec(program_.body, root.as<Activation>());
  out_ = nullptr;
  return out;
}

void Interp::fail(std::string_view what) const { fail_at(place_, what); }

void Interp::fail_undefined(const Value& value) const {
  std::string name =
      value.obj() == nullptr ? "a value" : fmt::format("'{}'", utf8_printable(value.as<Str>().text.view()));
  if (value.undefined_of() == Kind::kMissing) fail(name + " is undefined");
  fail(fmt::format("'{} object' has no attribute {}", type_name(value.undefined_of()), name));
}

void Interp::too_deep() {
  --depth_;
  fail("the template recurses too deeply");
}

Value Interp::str(Text text) {
  budget_.take(text.size());
  Str* str = make<Str>(std::move(text));
  str->bytes += str->text.size();
  return Value(str);
}

Value Interp::sequence(Kind kind, std::vector<Value> items) {
  size_t bytes = items.size() * sizeof(Value);
  budget_.take(bytes);
  List* list = make<List>(kind, std::move(items));
  Value value(list);
  list->bytes += bytes;
  for (const Value& item : list->items) nest(*list, item);
  return value;
}

Value Interp::function(std::string_view name, Callee callee, Value self) {
  return Value(make<Function>(name, callee, std::move(self)));
}

Value Interp::keep(Value value) {
  budget_.take(sizeof(Value));
  kept_.push_back(value);
  return value;
}

std::vector<Value> Interp::collect(const Value& source) {
  if (source.is_sequence()) {
    budget_.step(static_cast<int64_t>(source.items().size() / 16));
    return source.items();
  }
  std::vector<Value> out;
  Cursor cursor(*this, source);
  for (Value item; cursor.next(item);) {
    budget_.step();
    out.push_back(std::move(item));
  }
  return out;
}

Value Interp::call(const Value& callee, Args& args) {
  Deeper deeper(*this);
  switch (callee.kind()) {
    case Kind::kFunction: {
      Value held = callee;  // the callee may replace the variable that it came from
      const Function& function = held.as<Function>();
      return function.callee(*this, function.self, args);
    }
    case Kind::kMacro: {
      Value held = callee;
      return call_macro(held.as<Macro>(), args);
    }
    case Kind::kLoop: {
      if (callee.as<Loop>().stmt == nullptr) {
        fail("The loop must have the 'recursive' marker to be called recursively.");
      }
      Params params(*this, "loop", args, {"iterable"}, 1);
      return render_recursive(callee.as<Loop>(), params[0]);
    }
    case Kind::kUndefined:
      fail_undefined(callee);
    default:
      fail(fmt::format("'{}' object is not callable", type_name(callee.kind())));
  }
}

void Interp::hold(Activation& act) {
  if (act.kept) return;
  act.kept = true;
  keep(Value(&act));
}

Value Interp::make_macro(const MacroDef* def, Activation& act) {
  hold(act);
  return Value(make<Macro>(def, Value(&act)));
}

Value Interp::call_macro(const Macro& macro, Args& args) {
  Value activation(make<Activation>(macro.activation, macro.def->routine.slots));
  Activation& act = activation.as<Activation>();
  bind_macro(macro, args, act);
  enter(macro.def->frame, act);
  for (const Param& param : macro.def->params) {
    if (!act.slots[param.slot].is_missing()) continue;
    Value fallback = param.fallback != nullptr ? eval(param.fallback, act) : Value::undefined(str(param.name));
    act.slots[param.slot] = std::move(fallback);
  }
  Text* outer = out_;
  size_t outer_bytes = out_bytes_;
  Text text;
  out_ = &text;
  out_bytes_ = 0;
  exec(macro.def->body, act);
  budget_.give(out_bytes_);
  out_ = outer;
  out_bytes_ = outer_bytes;
  return str(std::move(text));
}

void Interp::bind_macro(const Macro& macro, Args& args, Activation& act) {
  const MacroDef& def = *macro.def;
  for (size_t i = 0; i < def.params.size(); ++i) {
    Value& slot = act.slots[def.params[i].slot];
    if (i < args.positional.size()) {
      slot = args.positional[i];
      continue;
    }
    for (auto it = args.named.begin(); it != args.named.end(); ++it) {
      if (it->first.text().bytes() != def.params[i].name) continue;
      slot = it->second;
      args.named.erase(it);
      break;
    }
  }
  macro_extras(macro, args, act);
}

// What is left after the declared parameters: caller, **kwargs and *varargs.
void Interp::macro_extras(const Macro& macro, Args& args, Activation& act) {
  const MacroDef& def = *macro.def;
  if (def.caller >= 0 && !def.explicit_caller) {
    Value caller = Value::undefined(str("caller"));
    for (auto it = args.named.begin(); it != args.named.end(); ++it) {
      if (it->first.text().bytes() != "caller") continue;
      if (!it->second.is_none()) caller = it->second;
      args.named.erase(it);
      break;
    }
    act.slots[static_cast<size_t>(def.caller)] = std::move(caller);
  }
  if (def.kwargs >= 0) {
    Value kwargs(new_dict());
    for (auto& [name, value] : args.named) kwargs.as<Dict>().set(name, value);
    act.slots[static_cast<size_t>(def.kwargs)] = std::move(kwargs);
  } else if (!args.named.empty()) {
    fail(fmt::format("macro '{}' takes no keyword argument '{}'", def.name, args.named[0].first.text().bytes()));
  }
  size_t declared = std::min(def.params.size(), args.positional.size());
  if (def.varargs >= 0) {
    act.slots[static_cast<size_t>(def.varargs)] =
        tuple({args.positional.begin() + static_cast<ptrdiff_t>(declared), args.positional.end()});
  } else if (args.positional.size() > def.params.size()) {
    fail(fmt::format("macro '{}' takes not more than {} argument(s)", def.name, def.params.size()));
  }
}

Cursor::Cursor(Interp& interp, Value source) : interp_(&interp), source_(std::move(source)) {
  switch (source_.kind()) {
    case Kind::kUndefined:
    case Kind::kStr:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kLoop:
    case Kind::kGenerator:
      break;
    default:
      interp.fail(fmt::format("'{}' object is not iterable", type_name(source_.kind())));
  }
}

bool Cursor::next(Value& out) {
  switch (source_.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= source_.items().size()) return false;
      out = source_.items()[at_++];
      return true;
    case Kind::kStr: {
      const Text& text = source_.text();
      if (at_ >= text.size()) return false;
      size_t end = at_ + char_at(text.view(), at_).size;
      out = interp_->str(text.sub(at_, end)).with_markup(source_.markup());
      at_ = end;
      return true;
    }
    case Kind::kDict:
    case Kind::kView: {
      View::Part part = source_.is(Kind::kView) ? source_.as<View>().part : View::kKeys;
      const Dict& dict = source_.is(Kind::kView) ? source_.as<View>().dict.dict() : source_.dict();
      if (at_ >= dict.entries.size()) return false;
      const auto& [key, value] = dict.entries[at_++];
      out = part == View::kKeys ? key : part == View::kValues ? value : interp_->tuple({key, value});
      return true;
    }
    case Kind::kRange: {
      const Range& range = source_.as<Range>();
      if (at_ >= range.size()) return false;
      out = Value::integer(range.start + static_cast<int64_t>(at_++) * range.step);
      return true;
    }
    case Kind::kGenerator: {
      Interp::Deeper deeper(*interp_);
      return source_.as<Generator>().next(*interp_, out);
    }
    case Kind::kLoop: {
      Interp::Deeper deeper(*interp_);
      Value item;
      if (!source_.as<Loop>().next(item)) return false;
      out = interp_->tuple({std::move(item), source_});
      return true;
    }
    default:
      return false;
  }
}

void Loop::unlink() {
  before = Value();
  now = Value();
  after = Value();
  last_changed = Value();
}

bool Loop::next(Value& out) {
  Value item;
  if (!after.is_missing()) {
    std::swap(item, after);
  } else if (!cursor.next(item)) {
    return false;
  }
  ++index0;
  before = std::move(now);
  now = item;
  out = std::move(item);
  return true;
}

const Value& Loop::peek() {
  if (after.is_missing() && !cursor.next(after)) after = Value();
  return after;
}

int64_t Loop::length(Interp& interp) {
  if (known_length >= 0) return known_length;
  known_length = length_or_none(interp, cursor.source());
  if (known_length >= 0) return known_length;
  std::vector<Value> rest;
  for (Value item; cursor.next(item);) {
    interp.budget().step();
    rest.push_back(std::move(item));
  }
  known_length = static_cast<int64_t>(rest.size()) + index0 + 1 + (after.is_missing() ? 0 : 1);
  cursor = Cursor(interp, interp.list(std::move(rest)));
  return known_length;
}

}  // namespace ingot::jinja
