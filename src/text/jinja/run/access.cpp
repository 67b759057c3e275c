// Attributes, items, slices, lengths and escaping.
#include <algorithm>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

// Names that every Python object has. The sandbox hides them, so that they are undefined and never an entry of a dict.
constexpr std::string_view kHidden[] = {
    "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
    "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
    "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
    "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
    "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};

bool is_hidden(std::string_view name) {
  return std::find(std::begin(kHidden), std::end(kHidden), name) != std::end(kHidden);
}

// An index as Python takes it: negative from the end. False when it is outside.
bool find_index(int64_t index, size_t size, size_t& out) {
  int64_t n = static_cast<int64_t>(size);
  if (index < 0) index += n;
  if (index < 0 || index >= n) return false;
  out = static_cast<size_t>(index);
  return true;
}

Value index_sequence(Interp& interp, const Value& obj, int64_t index) {
  size_t at = 0;
  switch (obj.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return find_index(index, obj.items().size(), at) ? obj.items()[at] : Value();
    case Kind::kStr:
      return find_index(index, obj.as<Str>().length(), at) ? char_of(interp, obj, at) : Value();
    case Kind::kRange: {
      const Range& range = obj.as<Range>();
      if (!find_index(index, range.size(), at)) return Value();
      return Value::integer(range.start + static_cast<int64_t>(at) * range.step);
    }
    default:
      return Value();
  }
}

struct Bounds {
  int64_t start, stop, step;
  size_t count;
};

int64_t slice_part(Interp& interp, const Value& value, int64_t fallback) {
  if (value.is_missing() || value.is_none()) return fallback;
  if (!value.is_integral()) interp.fail("slice indices must be integers or None");
  return value.integer();
}

Bounds slice_bounds(Interp& interp, int64_t n, const Value& start, const Value& stop, const Value& step) {
  Bounds b{};
  b.step = slice_part(interp, step, 1);
  if (b.step == 0) interp.fail("slice step cannot be zero");
  b.step = std::max(b.step, -INT64_MAX);
  auto clip = [&](int64_t i) {
    if (i < 0) i = i < -n ? (b.step < 0 ? -1 : 0) : i + n;
    return i >= n ? (b.step < 0 ? n - 1 : n) : i;
  };
  bool forward = b.step > 0;
  bool has_start = !start.is_missing() && !start.is_none(), has_stop = !stop.is_missing() && !stop.is_none();
  b.start = has_start ? clip(slice_part(interp, start, 0)) : (forward ? 0 : n - 1);
  b.stop = has_stop ? clip(slice_part(interp, stop, 0)) : (forward ? n : -1);
  if (forward && b.start < b.stop) b.count = static_cast<size_t>((b.stop - b.start - 1) / b.step + 1);
  if (!forward && b.stop < b.start) b.count = static_cast<size_t>((b.start - b.stop - 1) / -b.step + 1);
  return b;
}

Value slice_string(Interp& interp, const Value& obj, const Bounds& b) {
  const Text& text = obj.text();
  interp.budget().scan(text.size());
  bool ascii = obj.as<Str>().length() == text.size();
  if (b.step == 1) {
    size_t begin = static_cast<size_t>(b.start), end = begin + b.count;
    if (!ascii) {
      begin = byte_of_char(text.view(), begin);
      end = begin + byte_of_char(text.view().substr(begin), b.count);
    }
    return interp.str(text.sub(begin, end));
  }
  interp.budget().step(static_cast<int64_t>(b.count));
  std::vector<size_t> starts;  // of every character, and the end
  if (!ascii) {
    interp.budget().step(static_cast<int64_t>(text.size()));
    for (size_t i = 0; i < text.size(); i += char_at(text.view(), i).size) starts.push_back(i);
    starts.push_back(text.size());
  }
  Text out;
  for (size_t i = 0; i < b.count; ++i) {
    size_t at = static_cast<size_t>(b.start + static_cast<int64_t>(i) * b.step);
    out.append(text, ascii ? at : starts[at], ascii ? at + 1 : starts[at + 1]);
  }
  return interp.str(std::move(out));
}

}  // namespace

Value get_attr(Interp& interp, const Value& obj, const Value& name) {
  std::string_view text = name.text().view();
  if (text.starts_with("__") && is_hidden(text)) return Value::undefined(name, obj.kind());
  if (obj.is_undefined()) interp.fail_undefined(obj);
  Value found = find_attribute(interp, obj, text);
  if (!found.is_missing()) return found;
  if (obj.is(Kind::kDict)) {
    if (const Value* entry = obj.dict().find(name)) return *entry;
  }
  return Value::undefined(name, obj.kind());
}

Value get_item(Interp& interp, const Value& obj, const Value& key) {
  if (obj.is_undefined()) interp.fail_undefined(obj);
  if (obj.is(Kind::kDict)) {
    const Value* entry = is_key(key) ? obj.dict().find(key) : nullptr;
    if (entry != nullptr) return *entry;
  } else if (key.is_integral()) {
    Value item = index_sequence(interp, obj, key.integer());
    if (!item.is_missing()) return item;
  }
  if (key.is_str() && !is_hidden(key.text().view())) {
    Value found = find_attribute(interp, obj, key.text().view());
    if (!found.is_missing()) return found;
  }
  return Value::undefined(key, obj.kind());
}

Value get_slice(Interp& interp, const Value& obj, const Value& start, const Value& stop, const Value& step) {
  if (obj.is_undefined()) interp.fail_undefined(obj);
  if (!obj.is_str() && !obj.is_sequence() && !obj.is(Kind::kRange)) {
    interp.fail(fmt::format("'{}' object cannot be sliced", type_name(obj.kind())));
  }
  Bounds b = slice_bounds(interp, length(interp, obj), start, stop, step);
  if (obj.is_str()) return slice_string(interp, obj, b).with_markup(obj.markup());
  if (obj.is(Kind::kRange)) {
    const Range& range = obj.as<Range>();
    if (b.step > kMaxRangeStep || b.step < -kMaxRangeStep) interp.fail("slice step too large");
    int64_t by = range.step * b.step, first = range.start + b.start * range.step;
    return Value(interp.make<Range>(first, first + by * static_cast<int64_t>(b.count), by));
  }
  std::vector<Value> items;
  items.reserve(b.count);
  interp.budget().step(static_cast<int64_t>(b.count));
  for (size_t i = 0; i < b.count; ++i) {
    items.push_back(obj.items()[static_cast<size_t>(b.start + static_cast<int64_t>(i) * b.step)]);
  }
  return obj.is(Kind::kList) ? interp.list(std::move(items)) : interp.tuple(std::move(items));
}

int64_t length_or_none(Interp& interp, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kStr:
      return static_cast<int64_t>(value.as<Str>().length());
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kView:
      return static_cast<int64_t>(value.as<View>().dict.dict().entries.size());
    case Kind::kRange:
      return static_cast<int64_t>(value.as<Range>().size());
    case Kind::kLoop:
      return value.as<Loop>().length(interp);
    default:
      return -1;
  }
}

int64_t length(Interp& interp, const Value& value) {
  int64_t n = length_or_none(interp, value);
  if (n < 0) interp.fail(fmt::format("object of type '{}' has no len()", type_name(value.kind())));
  return n;
}

Value repeat(Interp& interp, const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  int64_t size = sequence.is_str() ? static_cast<int64_t>(sequence.text().size())
                                   : static_cast<int64_t>(sequence.items().size() * sizeof(Value));
  int64_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) total = INT64_MAX;
  interp.budget().take(static_cast<size_t>(total));  // before it is made
  interp.budget().give(static_cast<size_t>(total));
  if (size == 0) times = 0;
  interp.budget().step(times / 16 + total / 64);
  if (sequence.is_str()) {
    // By doubling: a loop over single characters takes ten times as long.
    Text out, power = sequence.text();
    for (uint64_t rest = static_cast<uint64_t>(times); rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) out.append(power);
      if (rest > 1) power.append(Text(power));
    }
    return interp.str(std::move(out)).with_markup(sequence.markup());
  }
  std::vector<Value> items;
  items.reserve(sequence.items().size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return sequence.is(Kind::kList) ? interp.list(std::move(items)) : interp.tuple(std::move(items));
}

Value char_of(Interp& interp, const Value& str, size_t index) {
  const Text& text = str.text();
  if (str.as<Str>().length() != text.size()) {
    interp.budget().scan(text.size());
    index = byte_of_char(text.view(), index);
  }
  return interp.str(text.sub(index, index + char_at(text.view(), index).size)).with_markup(str.markup());
}

Text escape_text(Interp& interp, const Text& text) {
  static constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  interp.budget().scan(text.size());
  Text out;
  size_t done = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.view()[i] > '>') continue;  // nothing to escape there
    for (const auto& [c, entity] : kEntities) {
      if (text.view()[i] != c) continue;
      out.append(text, done, i);
      out.append(entity, text.from_template(i));
      done = i + 1;
    }
  }
  out.append(text, done, text.size());
  return out;
}

Value escape(Interp& interp, const Value& value) {
  if (value.is_str() && value.markup()) return value;
  return interp.str(escape_text(interp, to_text(interp, value))).with_markup(true);
}

}  // namespace ingot::jinja
