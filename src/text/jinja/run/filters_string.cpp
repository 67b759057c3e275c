// Filters that make text.
#include <algorithm>

#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/strings.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

Value cased(Interp& ip, const Value& in, Args& args, std::string_view name, CaseMode mode) {
  Params params(ip, name, args, {});
  Value text = to_str(ip, in);
  return ip.str(map_case(ip, text.text(), mode)).with_markup(text.markup());
}

Value upper(Interp& ip, const Value& in, Args& args) { return cased(ip, in, args, "upper", CaseMode::kUpper); }
Value lower(Interp& ip, const Value& in, Args& args) { return cased(ip, in, args, "lower", CaseMode::kLower); }
Value capitalize(Interp& ip, const Value& in, Args& args) {
  return cased(ip, in, args, "capitalize", CaseMode::kCapitalize);
}

Value title(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "title", args, {});
  return ip.str(title_words(ip, to_str(ip, in).text()));
}

Value trim(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "trim", args, {"chars"});
  Value text = to_str(ip, in);
  const Text* chars = params.given(0) ? &params.text(0) : nullptr;
  return ip.str(strip_text(ip, text.text(), chars, true, true)).with_markup(text.markup());
}

Value replace(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "replace", args, {"old", "new", "count"}, 2);
  Text from = to_text(ip, params[0]), to = to_text(ip, params[1]);
  int64_t count = params.given(2) ? params.integer(2, -1) : -1;
  return ip.str(replace_text(ip, to_text(ip, in), from, to, count));
}

Value indent(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "indent", args, {"width", "first", "blank"});
  if (in.is_undefined()) ip.fail_undefined(in);
  if (!in.is_str()) ip.fail(fmt::format("indent(): expected str, not {}", type_name(in.kind())));
  Text by = params.has(0) && params[0].is_str() ? params.text(0) : pad(ip, Text(), params.integer(0, 4), 0, " ");
  bool blank = params.flag(2, false);
  const Text& text = in.text();
  std::vector<Span> lines = split_lines(ip, text, false);
  // A line end at the end of the text begins one more line.
  size_t end = text.size();
  if (lines.empty() || lines.back().end < end) lines.push_back({end, end});
  Text out;
  if (params.flag(1, false)) out.append(by);
  for (size_t i = 0; i < lines.size(); ++i) {
    ip.budget().room(out.size() + by.size());
    ip.budget().scan(by.size());
    if (i != 0) {
      out.append("\n", text.from_template(lines[i - 1].end));
      if (blank || lines[i].begin < lines[i].end) out.append(by);
    }
    out.append(text, lines[i].begin, lines[i].end);
  }
  return ip.str(std::move(out)).with_markup(in.markup());
}

Value escape_filter(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "escape", args, {});
  return escape(ip, in);
}

Value force_escape(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "forceescape", args, {});
  return escape(ip, to_str(ip, in).with_markup(false));
}

Value safe(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "safe", args, {});
  return to_str(ip, in).with_markup(true);
}

Value string(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "string", args, {});
  return to_str(ip, in);
}

Value center(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "center", args, {"width"});
  Value text = to_str(ip, in);
  int64_t size = static_cast<int64_t>(text.as<Str>().length());
  int64_t width = params.integer(0, 80), space = std::max<int64_t>(width - size, 0);
  int64_t left = space / 2 + (space & width & 1);
  return ip.str(pad(ip, text.text(), left, space - left, " ")).with_markup(text.markup());
}

Value truncate(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "truncate", args, {"length", "killwords", "end", "leeway"});
  int64_t size = length(ip, in), limit = params.integer(0, 255);
  Text end = params.has(2) ? params.text(2) : Text("...", true);
  int64_t end_size = static_cast<int64_t>(count_chars(end.view()));
  int64_t leeway = params.given(3) ? params.integer(3, 5) : 5;
  if (limit < end_size || leeway < 0) ip.fail("truncate(): the length is shorter than the end");
  if (size <= limit + leeway) return in;
  if (!in.is_str()) ip.fail("truncate(): expected str");
  Text cut = in.text().sub(0, byte_of_char(in.text().view(), static_cast<size_t>(limit - end_size)));
  if (!params.flag(1, false)) {
    size_t space = cut.bytes().rfind(' ');
    if (space != std::string::npos) cut = cut.sub(0, space);
  }
  cut.append(end);
  return ip.str(std::move(cut));
}

Value wordcount(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "wordcount", args, {});
  Text text = to_text(ip, in);
  ip.budget().step(static_cast<int64_t>(text.size() / 8));
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); i += char_at(text.view(), i).size) {
    uint32_t cp = char_at(text.view(), i).cp;
    bool word = cp == '_' || has_property(cp, Property::kAlpha) || has_property(cp, Property::kNumeric);
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

Value format(Interp& ip, const Value& in, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    ip.fail("format(): positional and keyword arguments at the same time");
  }
  if (args.named.empty()) return percent_format(ip, to_str(ip, in), ip.tuple(std::move(args.positional)));
  Value names(ip.new_dict());
  for (auto& [name, value] : args.named) names.as<Dict>().set(name, value);
  return percent_format(ip, to_str(ip, in), names);
}

void json_indent(Interp& ip, const Params& params, JsonStyle& style) {
  if (!params.given(1)) return;
  style.pretty = true;
  style.item_separator = Text(",", true);
  if (params[1].is_str()) {
    style.indent = params.text(1).bytes();
    return;
  }
  style.indent = pad(ip, Text(), params.integer(1, 0), 0, " ").bytes();
}

Value tojson(Interp& ip, const Value& in, Args& args) {
  Params params(ip, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = params.flag(0, false);
  style.sort_keys = params.flag(3, false);
  json_indent(ip, params, style);
  if (params.given(2)) {
    std::vector<Value> parts = ip.collect(params[2]);
    if (parts.size() != 2 || !parts[0].is_str() || !parts[1].is_str()) ip.fail("tojson(): separators are two strings");
    style.item_separator = parts[0].text();
    style.key_separator = parts[1].text();
  }
  Text out;
  append_json(ip, out, in, style);
  return ip.str(std::move(out));
}

constexpr FilterDef kFilters[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"indent", indent},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", force_escape},
    {"safe", safe},
    {"string", string},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"format", format},
    {"tojson", tojson},
    {"striptags", nullptr},
    {"urlencode", nullptr},
    {"urlize", nullptr},
    {"wordwrap", nullptr},
    {"xmlattr", nullptr},
    {"pprint", nullptr},
    {"random", nullptr},
    {"filesizeformat", nullptr},
};

}  // namespace

std::span<const FilterDef> string_filters() { return kFilters; }

Value change_case(Interp& interp, const Value& str, bool upper_case) {
  return interp.str(map_case(interp, str.text(), upper_case ? CaseMode::kUpper : CaseMode::kLower));
}

}  // namespace ingot::jinja
