#include "text/jinja/value/value.h"

#include "base/error.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

// The classes of keys that compare with each other.
int key_class(const Value& v) {
  switch (v.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return 0;
    case Kind::kStr:
      return 1;
    case Kind::kNone:
      return 2;
    case Kind::kTuple:
      return 3;
    case Kind::kUndefined:
      return 4;
    case Kind::kBigInt:
      return 5;
    default:
      return 6;
  }
}

int compare_keys(const Value& a, const Value& b) {
  int ca = key_class(a), cb = key_class(b);
  if (ca != cb) return ca < cb ? -1 : 1;
  if (ca == 0) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    return a.number() < b.number() ? -1 : a.number() > b.number();
  }
  if (ca == 1) return a.text().bytes().compare(b.text().bytes());
  if (ca == 3) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      int c = compare_keys(x[i], y[i]);
      if (c != 0) return c;
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  if (ca == 5) return a.as<Str>().text.bytes().compare(b.as<Str>().text.bytes());
  if (ca == 6) return std::less<>()(a.obj(), b.obj()) ? -1 : a.obj() != b.obj();
  return 0;
}

}  // namespace

void Budget::pause() {
  if (steps_ < 0) throw Error("[template] the template does more work than its input allows");
  pause_at_ = std::max<int64_t>(steps_ - kPauseSteps, 0);
  (*on_pause_)();
}
void Budget::out_of_memory() { throw Error("[template] the template needs more memory than its input allows"); }

void Budget::bury(Obj* obj) {
  obj->next_dead = dead_;
  dead_ = obj;
  if (burying_) return;
  burying_ = true;
  while (dead_ != nullptr) {
    Obj* dead = dead_;
    dead_ = dead->next_dead;
    give(dead->bytes);
    delete dead;
  }
  burying_ = false;
}

Value Value::undefined(const Value& name, Kind of) {
  Value v = name.is_str() ? name : Value(Kind::kUndefined);
  if (!name.is_str()) v.data_.obj = nullptr;
  v.kind_ = Kind::kUndefined;
  v.of_ = of;
  return v;
}

const Text& Value::text() const { return as<Str>().text; }
const std::vector<Value>& Value::items() const { return as<List>().items; }
const Dict& Value::dict() const { return as<Dict>(); }

size_t Str::length() {
  if (chars == SIZE_MAX) {
    if (budget != nullptr) budget->scan(text.size());
    chars = count_chars(text.view());
  }
  return chars;
}

bool KeyLess::operator()(const Value& a, const Value& b) const { return compare_keys(a, b) < 0; }

const Value* Dict::find(const Value& key) const {
  if (key.is_str() && index.empty()) return find(key.text().view());
  if (index.empty()) {
    for (const auto& [k, v] : entries) {
      if (compare_keys(k, key) == 0) return &v;
    }
    return nullptr;
  }
  auto it = index.find(key);
  return it == index.end() ? nullptr : &entries[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  if (!index.empty()) {
    Str str{Text(std::string(key), true)};
    str.refs = Obj::kImmortal;
    return find(Value(&str));
  }
  for (const auto& [k, v] : entries) {
    if (k.is_str() && k.text().view() == key) return &v;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  if (const Value* old = find(key)) {
    nest(*this, value);
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  nest(*this, key);
  nest(*this, value);
  budget->step();
  budget->take(kEntryBytes);
  bytes += kEntryBytes;
  entries.emplace_back(key, std::move(value));
  if (entries.size() < kIndexFrom) return;
  if (index.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) index.emplace(entries[i].first, i);
  } else {
    index.emplace(key, entries.size() - 1);
  }
}

size_t Range::size() const {
  if (step > 0) return stop <= start ? 0 : static_cast<size_t>((stop - start - 1) / step + 1);
  return stop >= start ? 0 : static_cast<size_t>((start - stop - 1) / -step + 1);
}

void nest(Obj& outer, const Value& inner) {
  const Obj* obj = inner.obj();
  if (obj == nullptr || obj->kind == Kind::kNamespace || obj->depth < outer.depth) return;
  if (obj->depth >= kMaxValueDepth) throw Error("[template] values are nested too deeply");
  outer.depth = obj->depth + 1;
}

bool is_key(const Value& value) {
  if (value.is(Kind::kTuple)) {
    for (const Value& item : value.items()) {
      if (!is_key(item)) return false;
    }
    return true;
  }
  return !value.is(Kind::kList) && !value.is(Kind::kDict);
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.integer() != 0;
    case Kind::kFloat:
      return v.real() != 0;
    case Kind::kStr:
      return !v.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !v.items().empty();
    case Kind::kDict:
      return !v.dict().entries.empty();
    case Kind::kView:
      return !v.as<View>().dict.dict().entries.empty();
    case Kind::kRange:
      return v.as<Range>().size() != 0;
    default:
      return true;
  }
}

std::string_view type_name(Kind kind) {
  switch (kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kStr:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kMacro:
      return "macro";
    case Kind::kLoop:
      return "loop";
    case Kind::kFunction:
      return "function";
    case Kind::kGenerator:
      return "generator";
    case Kind::kCycler:
      return "cycler";
    case Kind::kActivation:
      return "frame";
  }
  return "value";
}

}  // namespace ingot::jinja
