// `format % args` and format.format(args).
#include "text/jinja/value/format.h"

#include <cmath>

#include "text/jinja/parse/literal.h"
#include "text/jinja/run/filters.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/ops.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/strings.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

class Percent {
 public:
  Percent(Interp& interp, const Value& format, const Value& args) : ip_(interp), format_(format), args_(args) {}

  Value run() {
    const Text& text = format_.text();
    size_t done = 0;
    for (size_t i = text.bytes().find('%'); i != std::string::npos; i = text.bytes().find('%', i)) {
      ip_.budget().step();
      out_.append(text, done, i);
      bool by_template = text.from_template(i);
      i = done = conversion(i + 1, by_template);
      ip_.budget().room(out_.size());
    }
    out_.append(text, done, text.size());
    bool mapping = args_.is(Kind::kDict) || args_.is(Kind::kList) || args_.is_undefined() || args_.is(Kind::kRange);
    size_t given = args_.is(Kind::kTuple) ? args_.items().size() : 1;
    if (!mapping && used_ < given) ip_.fail("not all arguments converted during string formatting");
    return ip_.str(std::move(out_)).with_markup(format_.markup());
  }

 private:
  Value next_arg() {
    size_t at = used_++;
    if (!args_.is(Kind::kTuple)) {
      if (at == 0) return args_;
    } else if (at < args_.items().size()) {
      return args_.items()[at];
    }
    ip_.fail("not enough arguments for format string");
  }

  // The conversion after a '%' at i; returns where it ends.
  size_t conversion(size_t i, bool by_template) {
    const std::string& s = format_.text().bytes();
    Value named;
    if (i < s.size() && s[i] == '(') {
      size_t end = s.find(')', i);
      if (end == std::string::npos) ip_.fail("incomplete format key");
      if (!args_.is(Kind::kDict)) ip_.fail("format requires a mapping");
      const Value* found = args_.dict().find(std::string_view(s).substr(i + 1, end - i - 1));
      if (found == nullptr) ip_.fail("a format key is missing");
      named = *found;
      i = end + 1;
    }
    FormatSpec spec;
    for (; i < s.size() && std::string_view("#0- +").find(s[i]) != std::string_view::npos; ++i) {
      if (s[i] == '-') spec.align = '<';
      if (s[i] == '0') spec.zero = true;
      if (s[i] == '#') spec.alternate = true;
      if (s[i] == '+' || (s[i] == ' ' && spec.sign != '+')) spec.sign = s[i];
    }
    spec.width = std::max<int64_t>(spec_number(ip_, s, i), 0);
    if (i < s.size() && s[i] == '.') {
      ++i;
      spec.precision = std::max<int64_t>(spec_number(ip_, s, i), 0);
    }
    while (i < s.size() && (s[i] == 'l' || s[i] == 'h' || s[i] == 'L')) ++i;
    if (i >= s.size()) ip_.fail("incomplete format");
    if (s[i] == '%') {
      out_.append("%", by_template);
    } else {
      spec.type = s[i];
      convert(named.is_missing() ? next_arg() : named, spec);
    }
    return i + 1;
  }

  void convert(const Value& arg, FormatSpec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        Text text;
        spec.type == 's' ? append_str(ip_, text, arg) : append_repr(ip_, text, arg);
        if (format_.markup() && !(arg.is_str() && arg.markup())) text = escape_text(ip_, text);
        if (spec.precision >= 0) text = text.sub(0, byte_of_char(text.view(), static_cast<size_t>(spec.precision)));
        out_.append(align_text(ip_, text, spec, true));
        break;
      }
      case 'c': {
        if (!arg.is_str() || arg.as<Str>().length() != 1) ip_.fail("%c requires a character");
        out_.append(align_text(ip_, arg.text(), spec, true));
        break;
      }
      default:
        number(arg, spec);
    }
  }

  void number(const Value& arg, FormatSpec spec) {
    if (arg.is_undefined()) ip_.fail_undefined(arg);
    if (!arg.is_number()) ip_.fail(fmt::format("%{} format: a number is required", spec.type));
    Value value = arg;
    bool integral = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (integral && value.is(Kind::kFloat)) {
      if (!(std::fabs(value.real()) < 9e18)) ip_.fail("an integer beyond 64 bits");
      value = Value::integer(static_cast<int64_t>(value.real()));
    }
    if (integral) spec.type = 'd';
    bool based = spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
    if (based && !value.is_integral()) ip_.fail("an integer is required");
    if (!integral && !based && std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
      ip_.fail("unsupported format character");
    }
    int64_t digits = integral || based ? spec.precision : -1;
    if (integral || based) spec.precision = -1;
    if (spec.zero && spec.align == 0) spec.fill = "0", spec.align = '=';
    Value plain = value.is_integral() ? Value::integer(value.integer()) : value;
    if (digits > 0) {  // %.3d: at least so many digits
      FormatSpec inner;
      inner.type = spec.type;
      inner.fill = "0";
      inner.align = '=';
      inner.width = digits + (plain.integer() < 0 ? 1 : 0);
      out_.append(align_text(ip_, format_number(ip_, plain, inner), spec, true));
      return;
    }
    out_.append(format_number(ip_, plain, spec));
  }

  Interp& ip_;
  const Value& format_;
  const Value& args_;
  size_t used_ = 0;
  Text out_;
};

class Brace {
 public:
  Brace(Interp& interp, const Value& format, const Args& args) : ip_(interp), format_(format), args_(args) {}

  Value run() {
    Text out;
    expand(format_.text(), out, 0);
    return ip_.str(std::move(out)).with_markup(format_.markup());
  }

 private:
  void expand(const Text& text, Text& out, int depth) {
    if (depth > 2) ip_.fail("Max string recursion exceeded");
    const std::string& s = text.bytes();
    size_t done = 0;
    for (size_t i = s.find_first_of("{}"); i != std::string::npos; i = s.find_first_of("{}", i)) {
      ip_.budget().step();
      out.append(text, done, i);
      if (i + 1 < s.size() && s[i + 1] == s[i]) {
        out.append(text, i, i + 1);
        i += 2;
      } else if (s[i] == '}') {
        ip_.fail("Single '}' encountered in format string");
      } else {
        size_t end = closing(s, i);
        out.append(field(text.sub(i + 1, end), depth));
        i = end + 1;
      }
      done = i;
      ip_.budget().room(out.size());
    }
    out.append(text, done, s.size());
  }

  size_t closing(const std::string& s, size_t open) {
    int nested = 0;
    for (size_t i = open; i < s.size(); ++i) {
      if (s[i] == '{') ++nested;
      if (s[i] == '}' && --nested == 0) return i;
    }
    ip_.fail("expected '}' before end of string");
  }

  // name[!conversion][:spec]
  Text field(const Text& text, int depth) {
    const std::string& s = text.bytes();
    size_t end = 0;
    for (int bracket = 0; end < s.size() && !(bracket == 0 && (s[end] == '!' || s[end] == ':')); ++end) {
      if (s[end] == '[') bracket = 1;
      if (s[end] == ']') bracket = 0;
    }
    Value value = lookup(std::string_view(s).substr(0, end));
    if (end < s.size() && s[end] == '!') {
      char kind = end + 1 < s.size() ? s[end + 1] : '\0';
      if (kind != 's' && kind != 'r' && kind != 'a') ip_.fail("Unknown conversion specifier");
      Text converted;
      kind == 's' ? append_str(ip_, converted, value) : append_repr(ip_, converted, value);
      value = ip_.str(std::move(converted));
      end += 2;
      if (end < s.size() && s[end] != ':') ip_.fail("expected ':' after conversion specifier");
    }
    Text spec;
    if (end < s.size()) expand(text.sub(end + 1, s.size()), spec, depth + 1);
    Text out = format_value(ip_, value, parse_spec(ip_, spec.view()), spec.empty());
    bool safe = !format_.markup() || (value.is_str() && value.markup());
    return safe ? out : escape_text(ip_, out);
  }

  Value lookup(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, end));
    while (end < name.size()) {
      bool attr = name[end] == '.';
      size_t stop = attr ? std::min(name.find_first_of(".[", end + 1), name.size()) : name.find(']', end);
      if (stop == std::string_view::npos) ip_.fail("Missing ']' in format string");
      std::string_view part = name.substr(end + 1, stop - end - 1);
      if (part.empty()) ip_.fail("Empty attribute in format string");
      auto index = attr ? std::nullopt : digits_only(part);
      value = attr ? get_attr(ip_, value, ip_.str(part))
                   : get_item(ip_, value, index ? Value::integer(*index) : ip_.str(part));
      end = attr ? stop : stop + 1;
      if (end < name.size() && name[end] != '.' && name[end] != '[') {
        ip_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static std::optional<int64_t> digits_only(std::string_view s) {
    if (s.find_first_not_of("0123456789") != std::string_view::npos) return {};
    return parse_int(s, 10);
  }

  Value argument(std::string_view name) {
    std::optional<int64_t> index = name.empty() ? std::nullopt : digits_only(name);
    if (name.empty() || index) {
      if (numbering_ != 0 && (numbering_ == 1) != name.empty()) {
        ip_.fail("cannot mix automatic and manual field numbering");
      }
      numbering_ = name.empty() ? 1 : 2;
      size_t at = name.empty() ? next_++ : static_cast<size_t>(*index);
      if (at >= args_.positional.size()) ip_.fail("Replacement index out of range for positional args");
      return args_.positional[at];
    }
    for (const auto& [key, value] : args_.named) {
      if (key.text().view() == name) return value;
    }
    ip_.fail("a format field names no argument");
  }

  Interp& ip_;
  const Value& format_;
  const Args& args_;
  size_t next_ = 0;
  int numbering_ = 0;  // 0: not known yet, 1: automatic, 2: manual
};

}  // namespace

Value percent_format(Interp& interp, const Value& format, const Value& args) {
  return Percent(interp, format, args).run();
}

Value brace_format(Interp& interp, const Value& format, const Args& args) { return Brace(interp, format, args).run(); }

}  // namespace ingot::jinja
