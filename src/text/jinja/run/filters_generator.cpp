// Filters whose items are made one by one, when somebody asks for them.
#include <algorithm>
#include <optional>
#include <set>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"

namespace ingot::jinja {
namespace {

template <class F>
struct Lazy : Generator {
  explicit Lazy(F f) : next_item(std::move(f)) {}
  bool next(Interp& interp, Value& out) override {
    interp.budget().step();
    return next_item(interp, out);
  }
  F next_item;
};

template <class F>
Value lazy(Interp& ip, F f) {
  return Value(ip.make<Lazy<F>>(std::move(f)));
}

// A cursor that begins with the first item: an error in the source is one when it is used.
struct Source {
  Value value;
  std::optional<Cursor> cursor;
  bool next(Interp& ip, Value& out) {
    if (!cursor) cursor.emplace(ip, value);
    return cursor->next(out);
  }
};

Value items(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "items", args, {});
  return lazy(ip, [source = in, at = size_t{0}](Interp& i, Value& out) mutable {
    if (source.is_undefined()) return false;
    if (!source.is(Kind::kDict)) i.fail("Can only get item pairs from a mapping.");
    const auto& entries = source.dict().entries;
    if (at >= entries.size()) return false;
    const auto& [key, value] = entries[at++];
    out = i.tuple({key, value});
    return true;
  });
}

// The rest of `args` after the first n.
Args rest_of(const Args& args, size_t n) {
  Args out = args;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<ptrdiff_t>(n));
  return out;
}

Value map_attribute(Interp& ip, const Value& in, Args& args) {
  Value attribute, fallback;
  for (auto& [name, value] : args.named) {
    if (name.text().bytes() == "attribute") {
      attribute = value;
    } else if (name.text().bytes() == "default") {
      fallback = value;
    } else {
      ip.fail("map(): unexpected keyword argument");
    }
  }
  return lazy(ip,
              [source = Source{in, {}}, path = attribute_path(ip, attribute), fallback](Interp& i, Value& out) mutable {
                Value item;
                if (!truthy(source.value) || !source.next(i, item)) return false;
                out = follow_path(i, item, path, fallback);
                return true;
              });
}

Value map(Interp& ip, const Value& in, Args& args) {
  bool by_attribute = std::any_of(args.named.begin(), args.named.end(),
                                  [](const auto& named) { return named.first.text().bytes() == "attribute"; });
  if (args.positional.empty() && by_attribute) return map_attribute(ip, in, args);
  return lazy(ip, [source = Source{in, {}}, args](Interp& i, Value& out) mutable {
    if (!truthy(source.value)) return false;
    if (args.positional.empty()) i.fail("map requires a filter argument");
    Value item;
    if (!source.next(i, item)) return false;
    Args rest = rest_of(args, 1);
    out = apply_filter(i, args.positional[0], item, rest);
    return true;
  });
}

Value select(Interp& ip, const Value& in, const Args& args, bool wanted, bool by_attribute) {
  return lazy(ip, [source = Source{in, {}}, args, wanted, by_attribute](Interp& i, Value& out) mutable {
    if (!truthy(source.value)) return false;
    size_t skip = by_attribute ? 1 : 0;
    if (args.positional.size() < skip) i.fail("Missing parameter for attribute name");
    std::vector<Value> path = by_attribute ? attribute_path(i, args.positional[0]) : std::vector<Value>();
    for (Value item; source.next(i, item);) {
      i.budget().step();
      Value subject = follow_path(i, item, path);
      bool passed = false;
      if (args.positional.size() > skip) {
        Args rest = rest_of(args, skip + 1);
        passed = apply_test(i, args.positional[skip], subject, rest);
      } else {
        passed = truthy(subject);
      }
      if (passed != wanted) continue;
      out = item;
      return true;
    }
    return false;
  });
}

Value do_select(Interp& ip, const Value& in, Args& args) { return select(ip, in, args, true, false); }
Value do_reject(Interp& ip, const Value& in, Args& args) { return select(ip, in, args, false, false); }
Value do_selectattr(Interp& ip, const Value& in, Args& args) { return select(ip, in, args, true, true); }
Value do_rejectattr(Interp& ip, const Value& in, Args& args) { return select(ip, in, args, false, true); }

Value unique(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "unique", args, {"case_sensitive", "attribute"});
  bool exact = params.flag(0, false);
  std::vector<Value> path = attribute_path(ip, params[1]);
  return lazy(ip,
              [source = Source{in, {}}, path, exact, seen = std::set<Value, KeyLess>()](Interp& i, Value& out) mutable {
                for (Value item; source.next(i, item);) {
                  i.budget().step();
                  Value key = follow_path(i, item, path);
                  if (!exact) key = lower_key(i, key);
                  if (!is_key(key)) i.fail(fmt::format("unhashable type: '{}'", type_name(key.kind())));
                  if (!seen.insert(key).second) continue;
                  out = item;
                  return true;
                }
                return false;
              });
}

Value batch(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "batch", args, {"linecount", "fill_with"}, 1);
  return lazy(ip, [source = Source{in, {}}, size = params[0], fill = params[1]](Interp& i, Value& out) mutable {
    std::vector<Value> line;
    Value item;
    // A line holds its first item whatever its size.
    while ((line.empty() || !equals(i, Value::integer(static_cast<int64_t>(line.size())), size)) &&
           source.next(i, item)) {
      line.push_back(item);
    }
    if (line.empty()) return false;
    if (!fill.is_missing() && !fill.is_none() && size.is_integral()) {
      while (static_cast<int64_t>(line.size()) < size.integer()) {
        i.budget().step();
        line.push_back(fill);
      }
    }
    out = i.list(std::move(line));
    return true;
  });
}

Value slice(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "slice", args, {"slices", "fill_with"}, 1);
  int64_t slices = params.integer(0, 1);
  return lazy(
      ip, [all_of = in, slices, fill = params[1], at = int64_t{0}, offset = size_t{0}](Interp& i, Value& out) mutable {
        if (slices == 0) i.fail("integer division or modulo by zero");
        if (at >= slices) return false;
        if (at == 0) all_of = i.list(i.collect(all_of));
        const std::vector<Value>& all = all_of.items();
        size_t n = static_cast<size_t>(slices), per = all.size() / n, extra = all.size() % n;
        size_t number = static_cast<size_t>(at++);
        size_t begin = offset + number * per;
        if (number < extra) ++offset;
        size_t end = offset + (number + 1) * per;
        std::vector<Value> part(all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end));
        if (!fill.is_missing() && !fill.is_none() && number >= extra) part.push_back(fill);
        out = i.list(std::move(part));
        return true;
      });
}

Value reverse(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "reverse", args, {});
  if (in.is_str()) return get_slice(ip, in, Value(), Value(), Value::integer(-1));
  std::vector<Value> all = ip.collect(in);
  std::reverse(all.begin(), all.end());
  if (in.is(Kind::kGenerator) || in.is(Kind::kLoop)) return ip.list(std::move(all));
  return lazy(ip, [source = Source{ip.list(std::move(all)), {}}](Interp& i, Value& out) mutable {
    return source.next(i, out);
  });
}

constexpr FilterDef kFilters[] = {
    {"items", items},
    {"map", map},
    {"select", do_select},
    {"reject", do_reject},
    {"selectattr", do_selectattr},
    {"rejectattr", do_rejectattr},
    {"unique", unique},
    {"batch", batch},
    {"slice", slice},
    {"reverse", reverse},
};

}  // namespace

std::span<const FilterDef> generator_filters() { return kFilters; }

}  // namespace ingot::jinja
