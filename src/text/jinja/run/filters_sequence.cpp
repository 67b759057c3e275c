// Filters on sequences that give a value at once.
#include <algorithm>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"

namespace ingot::jinja {
namespace {

Value default_value(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "default", args, {"default_value", "boolean"});
  bool absent = in.is_undefined() || (params.flag(1, false) && !truthy(in));
  if (!absent) return in;
  return params.has(0) ? params[0] : ip.str("");
}

Value count(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "length", args, {});
  return Value::integer(length(ip, in));
}

Value first(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "first", args, {});
  Value item;
  return Cursor(ip, in).next(item) ? item : Value::undefined();
}

Value last(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "last", args, {});
  if (in.is(Kind::kGenerator) || in.is(Kind::kLoop)) ip.fail("'generator' object is not reversible");
  if (in.is_str() && !in.text().empty()) return char_of(ip, in, in.as<Str>().length() - 1);
  if (in.is_sequence() && !in.items().empty()) return in.items().back();
  std::vector<Value> items = ip.collect(in);
  return items.empty() ? Value::undefined() : items.back();
}

Value join(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "join", args, {"d", "attribute"});
  Text separator = params.has(0) ? to_text(ip, params[0]) : Text();
  std::vector<Value> path = attribute_path(ip, params[1]);
  Cursor cursor(ip, in);
  Text out;
  bool begun = false;
  for (Value item; cursor.next(item);) {
    size_t before = out.size();
    if (begun) out.append(separator);
    begun = true;
    append_str(ip, out, path.empty() ? item : follow_path(ip, item, path));
    ip.budget().step(1 + static_cast<int64_t>((out.size() - before) >> 6));
    ip.budget().room(out.size());
  }
  return ip.str(std::move(out));
}

Value to_list(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "list", args, {});
  return ip.list(ip.collect(in));
}

struct Keyed {
  std::vector<Value> key;
  Value item;
};

bool key_less(Interp& ip, const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equals(ip, a[i], b[i])) return less(ip, a[i], b[i]);
  }
  return false;
}

// `scalar`: the keys are values and not lists, so that equal ones are compared as well and may be refused.
std::vector<Value> sorted(Interp& ip, std::vector<Keyed> keyed, bool reverse, bool scalar) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    const std::vector<Value>&x = reverse ? b.key : a.key, &y = reverse ? a.key : b.key;
    return scalar ? less(ip, x[0], y[0]) : key_less(ip, x, y);
  });
  std::vector<Value> out;
  for (Keyed& entry : keyed) out.push_back(std::move(entry.item));
  return out;
}

// The paths of `sort(attribute="a,b.c")`.
std::vector<std::vector<Value>> sort_paths(Interp& ip, const Value& attribute) {
  std::vector<std::vector<Value>> paths;
  if (!attribute.is_str()) {
    paths.push_back(attribute_path(ip, attribute));
    return paths;
  }
  const Text& text = attribute.text();
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.bytes().find(',', begin), text.size());
    paths.push_back(attribute_path(ip, ip.str(text.sub(begin, end))));
    begin = end + 1;
  }
  return paths;
}

Value sort(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::vector<Value>> paths = sort_paths(ip, params[2]);
  std::vector<Keyed> keyed;
  for (Value& item : ip.collect(in)) {
    Keyed entry;
    for (const std::vector<Value>& path : paths) {
      Value key = follow_path(ip, item, path);
      entry.key.push_back(params.flag(1, false) ? key : lower_key(ip, key));
    }
    entry.item = std::move(item);
    keyed.push_back(std::move(entry));
  }
  return ip.list(sorted(ip, std::move(keyed), params.flag(0, false), false));
}

Value dictsort(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "dictsort", args, {"case_sensitive", "by", "reverse"});
  std::string by = params.has(1) ? to_text(ip, params[1]).bytes() : "key";
  if (by != "key" && by != "value") ip.fail("You can only sort by either \"key\" or \"value\"");
  if (in.is_undefined()) ip.fail_undefined(in);
  if (!in.is(Kind::kDict)) ip.fail(fmt::format("'{}' object has no attribute 'items'", type_name(in.kind())));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : in.dict().entries) {
    const Value& order = by == "key" ? key : value;
    keyed.push_back({{params.flag(0, false) ? order : lower_key(ip, order)}, ip.tuple({key, value})});
  }
  return ip.list(sorted(ip, std::move(keyed), params.flag(2, false), true));
}

Value extreme(Interp& ip, const Value& in, Args& args, bool want_max) {
  Params params(ip, want_max ? "max" : "min", args, {"case_sensitive", "attribute"});
  std::vector<Value> path = attribute_path(ip, params[1]);
  Cursor cursor(ip, in);
  Value best, best_key;
  for (Value item; cursor.next(item);) {
    Value key = follow_path(ip, item, path);
    if (!params.flag(0, false)) key = lower_key(ip, key);
    bool better = best.is_missing() || (want_max ? less(ip, best_key, key) : less(ip, key, best_key));
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best.is_missing() ? Value::undefined() : best;
}

Value minimum(Interp& ip, const Value& in, Args& args) { return extreme(ip, in, args, false); }
Value maximum(Interp& ip, const Value& in, Args& args) { return extreme(ip, in, args, true); }

Value sum(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "sum", args, {"attribute", "start"});
  Value total = params.has(1) ? params[1] : Value::integer(0);
  if (total.is_str()) ip.fail("sum() can't sum strings");
  std::vector<Value> path = attribute_path(ip, params[0]);
  Cursor cursor(ip, in);
  for (Value item; cursor.next(item);) {
    total = arithmetic(ip, Op::kAdd, std::move(total), follow_path(ip, item, path));
  }
  return total;
}

Value group(Interp& ip, Value key, std::vector<Value> items) {
  Value out = ip.tuple({std::move(key), ip.list(std::move(items))});
  out.as<List>().group = true;
  return out;
}

Value groupby(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<Value> path = attribute_path(ip, params[0]);
  bool exact = params.flag(2, false);
  auto key_of = [&](const Value& item) {
    Value key = follow_path(ip, item, path, params[1]);
    return exact ? key : lower_key(ip, key);
  };
  std::vector<Keyed> keyed;
  for (Value& item : ip.collect(in)) keyed.push_back({{key_of(item)}, item});
  std::vector<Value> groups, members;
  Value current;
  auto finish = [&] {
    if (members.empty()) return;
    Value name = exact ? current : follow_path(ip, members[0], path, params[1]);
    groups.push_back(group(ip, name, std::move(members)));
    members.clear();
  };
  for (Value& item : sorted(ip, std::move(keyed), false, true)) {
    Value key = key_of(item);
    if (!members.empty() && !equals(ip, key, current)) finish();
    current = key;
    members.push_back(std::move(item));
  }
  finish();
  return ip.list(std::move(groups));
}

Value attr(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "attr", args, {"name"}, 1);
  params.text(0);
  if (in.is_undefined()) ip.fail_undefined(in);
  Value found = find_attribute(ip, in, params.text(0).view());
  return found.is_missing() ? Value::undefined(params[0], in.kind()) : found;
}

constexpr FilterDef kFilters[] = {
    {"default", default_value},
    {"d", default_value},
    {"length", count},
    {"count", count},
    {"first", first},
    {"last", last},
    {"join", join},
    {"list", to_list},
    {"sort", sort},
    {"dictsort", dictsort},
    {"min", minimum},
    {"max", maximum},
    {"sum", sum},
    {"groupby", groupby},
    {"attr", attr},
};

}  // namespace

std::span<const FilterDef> sequence_filters() { return kFilters; }

}  // namespace ingot::jinja
