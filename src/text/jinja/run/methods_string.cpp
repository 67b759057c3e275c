// The methods of str.
#include <algorithm>
#include <optional>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/strings.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

Value keep_markup(const Value& self, Value made) { return made.with_markup(self.markup()); }

const Text& text_arg(Interp& ip, std::string_view name, const Value& value) {
  if (value.is_str()) return value.text();
  ip.fail(fmt::format("{}(): expected str, not {}", name, type_name(value.kind())));
}

int64_t int_arg(Interp& ip, std::string_view name, const Value& value) {
  if (value.is_integral()) return value.integer();
  ip.fail(fmt::format("{}(): expected int, not {}", name, type_name(value.kind())));
}

template <CaseMode mode>
Value cased(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "case", args, 0, 0);
  return keep_markup(self, ip.str(map_case(ip, self.text(), mode)));
}

template <bool left, bool right>
Value strip(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "strip", args, 0, 1);
  bool any = args.positional.empty() || args.positional[0].is_none();
  const Text* chars = any ? nullptr : &text_arg(ip, "strip", args.positional[0]);
  return keep_markup(self, ip.str(strip_text(ip, self.text(), chars, left, right)));
}

template <bool back>
Value split(Interp& ip, const Value& self, Args& args) {
  Params params(ip, "split", args, {"sep", "maxsplit"});
  int64_t max = params.integer(1, -1);
  if (!params.given(0)) {
    return spans_to_list(ip, self, back ? split_space_back(ip, self.text(), max) : split_space(ip, self.text(), max));
  }
  return spans_to_list(ip, self, split_by(ip, self.text(), params.text(0), max, back));
}

Value splitlines(Interp& ip, const Value& self, Args& args) {
  Params params(ip, "splitlines", args, {"keepends"});
  return spans_to_list(ip, self, split_lines(ip, self.text(), params.flag(0, false)));
}

template <bool back>
Value partition(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "partition", args, 1, 1);
  const Text& separator = text_arg(ip, "partition", args.positional[0]);
  std::vector<Span> parts = split_by(ip, self.text(), separator, 1, back);
  auto piece = [&](Span span) { return keep_markup(self, ip.str(self.text().sub(span.begin, span.end))); };
  if (parts.size() == 1) {
    Value whole = self, none = ip.str("");
    return back ? ip.tuple({none, none, whole}) : ip.tuple({whole, none, none});
  }
  return ip.tuple({piece(parts[0]), piece({parts[0].end, parts[1].begin}), piece(parts[1])});
}

// The part of a str that [start, end) in characters names, as bytes; nothing when start lies behind it.
std::optional<Span> char_range(Interp& ip, const Value& self, const Args& args, size_t first) {
  Value start = args.positional.size() > first ? args.positional[first] : Value();
  Value stop = args.positional.size() > first + 1 ? args.positional[first + 1] : Value();
  int64_t n = static_cast<int64_t>(self.as<Str>().length());
  auto bound = [&](const Value& v, int64_t fallback) {
    if (v.is_missing() || v.is_none()) return fallback;
    int64_t i = int_arg(ip, "index", v);
    return i < 0 ? std::max<int64_t>(i + n, 0) : i;
  };
  int64_t from = bound(start, 0), to = std::min(bound(stop, n), n);
  if (from > n || from > to) return {};
  std::string_view s = self.text().view();
  size_t begin = byte_of_char(s, static_cast<size_t>(from));
  return Span{begin, begin + byte_of_char(s.substr(begin), static_cast<size_t>(to - from))};
}

template <bool at_end>
Value affixed(Interp& ip, const Value& self, Args& args) {
  check_args(ip, at_end ? "endswith" : "startswith", args, 1, 3);
  std::optional<Span> range = char_range(ip, self, args, 1);
  std::vector<Value> options =
      args.positional[0].is(Kind::kTuple) ? args.positional[0].items() : std::vector<Value>{args.positional[0]};
  for (const Value& option : options) {
    const Text& affix = text_arg(ip, at_end ? "endswith" : "startswith", option);
    ip.budget().scan(affix.size());
    if (!range) continue;
    std::string_view s = self.text().view().substr(range->begin, range->end - range->begin);
    if (at_end ? s.ends_with(affix.view()) : s.starts_with(affix.view())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool back, bool must>
Value find(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "find", args, 1, 3);
  const Text& what = text_arg(ip, "find", args.positional[0]);
  ip.budget().scan(self.text().size());
  if (std::optional<Span> range = char_range(ip, self, args, 1)) {
    std::string_view s = self.text().view().substr(range->begin, range->end - range->begin);
    size_t at = back ? find_text_back(ip, s, what.view()) : find_text(ip, s, what.view(), 0);
    if (at != std::string_view::npos) {
      return Value::integer(static_cast<int64_t>(count_chars(self.text().view().substr(0, range->begin + at))));
    }
  }
  if (must) ip.fail("substring not found");
  return Value::integer(-1);
}

Value count(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "count", args, 1, 3);
  const Text& what = text_arg(ip, "count", args.positional[0]);
  ip.budget().scan(self.text().size());
  std::optional<Span> range = char_range(ip, self, args, 1);
  if (!range) return Value::integer(0);
  std::string_view s = self.text().view().substr(range->begin, range->end - range->begin);
  if (what.empty()) return Value::integer(static_cast<int64_t>(count_chars(s)) + 1);
  int64_t n = 0;
  for (size_t at = 0; (at = find_text(ip, s, what.view(), at)) != std::string_view::npos; at += what.size()) ++n;
  return Value::integer(n);
}

Value replace(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "replace", args, 2, 3);
  const Text& from = text_arg(ip, "replace", args.positional[0]);
  text_arg(ip, "replace", args.positional[1]);
  Value to = self.markup() ? escape(ip, args.positional[1]) : args.positional[1];
  int64_t max = args.positional.size() > 2 ? int_arg(ip, "replace", args.positional[2]) : -1;
  return keep_markup(self, ip.str(replace_text(ip, self.text(), from, to.text(), max)));
}

template <bool prefix>
Value remove_affix(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "removeprefix", args, 1, 1);
  const Text& affix = text_arg(ip, "removeprefix", args.positional[0]);
  const Text& text = self.text();
  bool found = prefix ? text.view().starts_with(affix.view()) : text.view().ends_with(affix.view());
  if (!found) return self;
  size_t begin = prefix ? affix.size() : 0;
  return keep_markup(self, ip.str(text.sub(begin, prefix ? text.size() : text.size() - affix.size())));
}

Value join(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "join", args, 1, 1);
  Cursor cursor(ip, args.positional[0]);
  Text out;
  bool begun = false;
  for (Value item; cursor.next(item);) {
    if (!item.is_str()) ip.fail(fmt::format("join(): expected str instance, {} found", type_name(item.kind())));
    if (begun) out.append(self.text());
    begun = true;
    out.append(self.markup() ? escape(ip, item).text() : item.text());
    ip.budget().step(1 + static_cast<int64_t>((item.text().size() + self.text().size()) >> 6));
    ip.budget().room(out.size());
  }
  return keep_markup(self, ip.str(std::move(out)));
}

enum class Align { kLeft, kRight, kCenter };
template <Align align>
Value justify(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "just", args, 1, 2);
  int64_t width = int_arg(ip, "just", args.positional[0]);
  Text fill = args.positional.size() > 1 ? text_arg(ip, "just", args.positional[1]) : Text(" ", true);
  if (count_chars(fill.view()) != 1) ip.fail("The fill character must be exactly one character long");
  int64_t space = std::max<int64_t>(width - static_cast<int64_t>(self.as<Str>().length()), 0);
  int64_t left = align == Align::kLeft ? 0 : align == Align::kRight ? space : space / 2 + (space & width & 1);
  return keep_markup(self, ip.str(pad(ip, self.text(), left, space - left, fill.view())));
}

Value zfill(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "zfill", args, 1, 1);
  int64_t space = int_arg(ip, "zfill", args.positional[0]) - static_cast<int64_t>(self.as<Str>().length());
  const Text& text = self.text();
  size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  Text out = text.sub(0, sign);
  out.append(pad(ip, text.sub(sign, text.size()), space, 0, "0"));
  return ip.str(std::move(out));
}

Value format(Interp& ip, const Value& self, Args& args) { return brace_format(ip, self, args); }

Value format_map(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "format_map", args, 1, 1);
  if (!args.positional[0].is(Kind::kDict)) ip.fail("format_map(): expected a mapping");
  Args names;
  for (const auto& [key, value] : args.positional[0].dict().entries) {
    if (key.is_str()) names.named.emplace_back(key, value);
  }
  return brace_format(ip, self, names);
}

Value unsupported(Interp& ip, const Value&, Args&) { ip.fail("this method of str is not supported"); }

constexpr MethodDef kMethods[] = {
    {"capitalize", cased<CaseMode::kCapitalize>},
    {"casefold", unsupported},
    {"center", justify<Align::kCenter>},
    {"count", count},
    {"encode", unsupported},
    {"endswith", affixed<true>},
    {"expandtabs", unsupported},
    {"find", find<false, false>},
    {"format", format},
    {"format_map", format_map},
    {"index", find<false, true>},
    {"join", join},
    {"ljust", justify<Align::kLeft>},
    {"lower", cased<CaseMode::kLower>},
    {"lstrip", strip<true, false>},
    {"maketrans", unsupported},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justify<Align::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affixed<false>},
    {"strip", strip<true, true>},
    {"swapcase", cased<CaseMode::kSwap>},
    {"title", cased<CaseMode::kTitle>},
    {"translate", unsupported},
    {"upper", cased<CaseMode::kUpper>},
    {"zfill", zfill},
};

// isalpha() and its kin: every character has the property, and there is one.
template <Property... any>
Value all_have(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "is…", args, 0, 0);
  std::string_view s = self.text().view();
  ip.budget().step(static_cast<int64_t>(s.size() / 8));
  for (size_t i = 0; i < s.size(); i += char_at(s, i).size) {
    uint32_t cp = char_at(s, i).cp;
    if (!(has_property(cp, any) || ...)) return Value::boolean(false);
  }
  return Value::boolean(!s.empty());
}

Value is_ascii(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "isascii", args, 0, 0);
  const std::string& s = self.text().bytes();
  ip.budget().scan(s.size());
  return Value::boolean(std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 128; }));
}

Value is_printable(Interp& ip, const Value& self, Args& args) {
  return self.text().empty() ? Value::boolean(true) : all_have<Property::kPrintable>(ip, self, args);
}

Value is_identifier(Interp& ip, const Value& self, Args& args) {
  Value all = all_have<Property::kWord>(ip, self, args);
  if (!truthy(all)) return all;
  uint32_t first = char_at(self.text().view(), 0).cp;
  return Value::boolean(first == '_' || has_property(first, Property::kAlpha));
}

template <bool upper>
Value is_cased_as(Interp& ip, const Value& self, Args& args) {
  return Value::boolean(find_test(upper ? "upper" : "lower")->apply(ip, self, args));
}

Value is_title(Interp& ip, const Value& self, Args& args) {
  check_args(ip, "istitle", args, 0, 0);
  std::string_view s = self.text().view();
  ip.budget().step(static_cast<int64_t>(s.size() / 8));
  bool in_word = false, any = false;
  for (size_t i = 0; i < s.size(); i += char_at(s, i).size) {
    uint32_t cp = char_at(s, i).cp;
    bool starts = has_property(cp, Property::kUpper) || has_property(cp, Property::kTitle);
    if (starts ? in_word : has_property(cp, Property::kLower) && !in_word) return Value::boolean(false);
    in_word = is_cased(cp);
    any = any || in_word;
  }
  return Value::boolean(any);
}

constexpr MethodDef kQuestions[] = {
    {"isalnum", all_have<Property::kAlpha, Property::kNumeric>},
    {"isalpha", all_have<Property::kAlpha>},
    {"isascii", is_ascii},
    {"isdecimal", all_have<Property::kDecimal>},
    {"isdigit", all_have<Property::kDigit>},
    {"isidentifier", is_identifier},
    {"islower", is_cased_as<false>},
    {"isnumeric", all_have<Property::kNumeric>},
    {"isprintable", is_printable},
    {"isspace", all_have<Property::kSpace>},
    {"istitle", is_title},
    {"isupper", is_cased_as<true>},
};

}  // namespace

Value string_method(Interp& interp, const Value& obj, std::string_view name) {
  return find_method(interp, name.starts_with("is") ? std::span<const MethodDef>(kQuestions) : kMethods, obj, name);
}

}  // namespace ingot::jinja
