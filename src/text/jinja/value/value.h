// The values of a template: Python's None, bool, int, float, str, list, tuple, dict and what the engine itself makes.
// Values are counted references to objects of one render; the constants of a template are immortal, so that several
// threads may render one template. An object belongs to the Budget that it was made with and dies before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value/text.h"

namespace ingot::jinja {

class Interp;
struct Obj;

// Containers nest at most so deep, so that comparing, printing and walking them may recurse.
inline constexpr uint32_t kMaxValueDepth = 200;
inline constexpr size_t kEntryBytes = 64;  // of a dict, for the budget

// What a render may use. Every allocation and every piece of work is taken from here; Error when it is spent.
class Budget {
 public:
  Budget(size_t bytes, int64_t steps) : bytes_(bytes), steps_(steps) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(int64_t n = 1) {
    if ((steps_ -= n) < pause_at_) pause();
  }
  void scan(size_t n) { step(static_cast<int64_t>(n >> 6)); }  // a pass over n bytes: about the time of n/64 steps
  void take(size_t n) {
    if (n > bytes_) out_of_memory();
    bytes_ -= n;
  }
  void give(size_t n) { bytes_ += n; }
  void room(size_t n) const {  // n bytes that are not taken yet would still fit
    if (n > bytes_) out_of_memory();
  }
  // Called after each kPauseSteps or soon after; what it throws ends the render. Outlives this.
  static constexpr int64_t kPauseSteps = 20'000;  // about 2 ms
  void set_pause(const std::function<void()>* pause) {
    on_pause_ = pause;
    if (pause) pause_at_ = std::max<int64_t>(steps_ - kPauseSteps, 0);
  }
  int64_t steps_left() const { return steps_; }  // below 0: they ran out
  // Frees `obj` and all that only it held, without recursion however deep they nest.
  void bury(Obj* obj);

 private:
  void pause();  // or out of steps
  [[noreturn]] static void out_of_memory();

  size_t bytes_;
  int64_t steps_;
  int64_t pause_at_ = 0;
  const std::function<void()>* on_pause_ = nullptr;
  Obj* dead_ = nullptr;
  bool burying_ = false;
};

enum class Kind : uint8_t {
  kMissing,  // no value: an unset variable, an argument not given
  kNone,
  kBool,
  kInt,
  kFloat,
  // From here on obj() may be set.
  kUndefined,  // obj: its name, or none
  kBigInt,     // an integer of the input beyond 64 bits: prints as it was written, takes part in no arithmetic
  kStr,
  kList,
  kTuple,
  kDict,
  kView,
  kRange,
  kNamespace,
  kMacro,
  kLoop,
  kFunction,
  kGenerator,
  kCycler,
  kActivation,
};

struct Obj {
  static constexpr int32_t kImmortal = -1;

  explicit Obj(Kind k) : kind(k) {}
  virtual ~Obj() = default;
  // Drops what it refers to. Called at the end of a render on objects that may be part of a cycle.
  virtual void unlink() {}

  int32_t refs = 0;
  Kind kind;
  Budget* budget = nullptr;
  size_t bytes = 0;    // taken from the budget
  uint32_t depth = 0;  // of containers or generators inside it; see nest()
  Obj* next_dead = nullptr;
};

struct Str;
struct List;
struct Dict;

class Value {
 public:
  Value() : kind_(Kind::kMissing), markup_(false), of_(Kind::kMissing) { data_.integer = 0; }
  explicit Value(Obj* obj) : Value() {
    kind_ = obj->kind;
    data_.obj = obj;
    hold();
  }
  Value(const Value& other) : kind_(other.kind_), markup_(other.markup_), of_(other.of_), data_(other.data_) { hold(); }
  Value(Value&& other) noexcept : kind_(other.kind_), markup_(other.markup_), of_(other.of_), data_(other.data_) {
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(markup_, other.markup_);
    std::swap(of_, other.of_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Value() { drop(); }

  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) {
    Value v(Kind::kBool);
    v.data_.integer = b ? 1 : 0;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt);
    v.data_.integer = i;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::kFloat);
    v.data_.real = d;
    return v;
  }
  // `name`: what was looked up (a str or nothing); `of`: the kind of object it was looked up in, kMissing for a
  // variable.
  static Value undefined(const Value& name = Value(), Kind of = Kind::kMissing);

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_str() const { return kind_ == Kind::kStr; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  int64_t integer() const { return data_.integer; }  // kInt, kBool
  double real() const { return data_.real; }         // kFloat
  double number() const { return kind_ == Kind::kFloat ? data_.real : static_cast<double>(data_.integer); }
  Obj* obj() const { return kind_ >= Kind::kUndefined ? data_.obj : nullptr; }
  const Text& text() const;                 // kStr
  const std::vector<Value>& items() const;  // kList, kTuple
  const Dict& dict() const;                 // kDict
  template <class T>
  T& as() const {
    return static_cast<T&>(*data_.obj);
  }

  // A str marked as safe HTML (Markup): operations with other strings escape those.
  bool markup() const { return markup_; }
  Value with_markup(bool markup) const {
    Value v = *this;
    v.markup_ = markup;
    return v;
  }
  Kind undefined_of() const { return of_; }
  // No one else can see this object, so that it may be changed in place.
  bool unique() const { return obj() != nullptr && obj()->refs == 1; }

 private:
  explicit Value(Kind k) : Value() { kind_ = k; }
  void hold() const {
    Obj* o = obj();
    if (o != nullptr && o->refs != Obj::kImmortal) ++o->refs;
  }
  void drop() {
    Obj* o = obj();
    if (o != nullptr && o->refs != Obj::kImmortal && --o->refs == 0) o->budget->bury(o);
  }

  Kind kind_;
  bool markup_;
  Kind of_;
  union {
    int64_t integer;
    double real;
    Obj* obj;
  } data_;
};

struct Str : Obj {
  explicit Str(Text t) : Obj(Kind::kStr), text(std::move(t)) {}
  size_t length();  // in characters

  Text text;
  size_t chars = SIZE_MAX;  // SIZE_MAX: not counted yet; constants are counted when they are made
};

struct List : Obj {  // a list or a tuple
  List(Kind k, std::vector<Value> v) : Obj(k), items(std::move(v)) {}
  bool group = false;  // a tuple of groupby(), whose parts have the names grouper and list
  std::vector<Value> items;
};

// A total order over the values that may be keys, in which equal means equal as Python has it (1 == 1.0 == True).
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

// Keeps the order of insertion.
struct Dict : Obj {
  explicit Dict(Kind k = Kind::kDict) : Obj(k) {}
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // REQUIRES: is_key(key). Takes the entry from the budget.
  void set(const Value& key, Value value);
  void unlink() override { entries.clear(), index.clear(); }

  std::vector<std::pair<Value, Value>> entries;

 private:
  static constexpr size_t kIndexFrom = 16;  // below, a scan is faster
  std::map<Value, size_t, KeyLess> index;
};

struct View : Obj {  // dict.keys(), values() or items()
  enum Part { kKeys, kValues, kItems };
  View(Value d, Part p) : Obj(Kind::kView), dict(std::move(d)), part(p) {}
  Value dict;
  Part part;
};

struct Range : Obj {
  Range(int64_t a, int64_t b, int64_t c) : Obj(Kind::kRange), start(a), stop(b), step(c) {}
  int64_t start, stop, step;
  size_t size() const;
};

// An iterator that gives each item once.
struct Generator : Obj {
  Generator() : Obj(Kind::kGenerator) {}
  virtual bool next(Interp& interp, Value& out) = 0;
};

// Something callable: a builtin of the engine, or a method bound to a value.
struct Args;
using Callee = Value (*)(Interp& interp, const Value& self, Args& args);
struct Function : Obj {
  Function(std::string_view n, Callee c, Value s) : Obj(Kind::kFunction), name(n), callee(c), self(std::move(s)) {}
  std::string_view name;  // static text
  Callee callee;
  Value self;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;  // the keys are str
};

// Notes that `outer` contains `inner`. Error when it nests too deeply. Namespaces do not count: they may be cycles,
// and whoever prints them counts for himself.
void nest(Obj& outer, const Value& inner);
// May stand as a key: str, numbers, None, and tuples of keys; engine objects by identity.
bool is_key(const Value& value);
bool truthy(const Value& value);
// "str", "dict", … as Python names the type.
std::string_view type_name(Kind kind);

}  // namespace ingot::jinja
