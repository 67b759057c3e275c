#include <cmath>

#include "text/jinja/parse/literal.h"
#include "text/jinja/run/interp.h"
#include "text/jinja/value/format.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/strings.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string grouped(std::string_view digits, char group, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % every == 0) out += group;
    out += digits[i];
  }
  return out;
}

// The digits of |value| in the base that the type names.
std::string int_digits(uint64_t value, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    default:
      return fmt::format("{}", value);
  }
}

std::string float_digits(Interp& interp, double value, const FormatSpec& spec) {
  int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", value, precision == 0 ? 1 : precision);
    case 'G':
      return fmt::format("{:.{}G}", value, precision == 0 ? 1 : precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    case 0: {
      if (spec.precision < 0) return float_repr(value);
      std::string out = fmt::format("{:.{}g}", value, precision == 0 ? 1 : precision);
      if (out.find_first_of(".e") == std::string::npos) out += ".0";
      return out;
    }
    default:
      interp.fail(fmt::format("Unknown format code '{}' for object of type 'float'", spec.type));
  }
}

bool float_type(char type) { return type != 0 && std::string_view("eEfFgG%").find(type) != std::string_view::npos; }

}  // namespace

int64_t spec_number(Interp& interp, std::string_view text, size_t& pos) {
  int64_t out = -1;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    out = std::max<int64_t>(out, 0) * 10 + (text[pos++] - '0');
    if (out > 9999) interp.fail("a width or precision is too large");
  }
  return out;
}

FormatSpec parse_spec(Interp& interp, std::string_view s) {
  FormatSpec spec;
  size_t i = 0;
  size_t first = s.empty() ? 0 : char_at(s, 0).size;
  if (first < s.size() && is_align(s[first])) {
    spec.fill = s.substr(0, first);
    spec.align = s[first];
    i = first + 1;
  } else if (!s.empty() && is_align(s[0])) {
    spec.align = s[0];
    i = 1;
  }
  if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) spec.sign = s[i++];
  if (i < s.size() && s[i] == '#') spec.alternate = true, ++i;
  if (i < s.size() && s[i] == '0') spec.zero = true, ++i;
  spec.width = std::max<int64_t>(spec_number(interp, s, i), 0);
  if (i < s.size() && (s[i] == ',' || s[i] == '_')) spec.group = s[i++];
  if (i < s.size() && s[i] == '.') {
    ++i;
    spec.precision = spec_number(interp, s, i);
    if (spec.precision < 0) interp.fail("Format specifier missing precision");
  }
  if (i < s.size()) spec.type = s[i++];
  if (i < s.size()) interp.fail("Invalid format specifier");
  if (spec.zero && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  return spec;
}

Text align_text(Interp& interp, const Text& text, const FormatSpec& spec, bool number) {
  int64_t space = spec.width - static_cast<int64_t>(count_chars(text.view()));
  if (space <= 0) return text;
  char align = spec.align != 0 ? spec.align : number ? '>' : '<';
  if (align == '=') {
    size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+' || text.bytes()[0] == ' ') ? 1 : 0;
    Text out = text.sub(0, sign);
    out.append(pad(interp, text.sub(sign, text.size()), space, 0, spec.fill));
    return out;
  }
  int64_t before = align == '<' ? 0 : align == '>' ? space : space / 2;
  return pad(interp, text, before, space - before, spec.fill);
}

Text format_number(Interp& interp, const Value& value, const FormatSpec& spec) {
  bool as_float = value.is(Kind::kFloat) || float_type(spec.type);
  bool negative = as_float ? std::signbit(value.number()) : value.integer() < 0;
  std::string digits, prefix;
  if (as_float) {
    digits = float_digits(interp, std::fabs(value.number()), spec);
    if (spec.group != 0) {
      size_t whole = std::min(digits.find_first_of(".e%"), digits.size());
      digits = grouped(digits.substr(0, whole), spec.group, 3) + digits.substr(whole);
    }
  } else {
    if (spec.type != 0 && std::string_view("bdoxXn").find(spec.type) == std::string_view::npos) {
      interp.fail(fmt::format("Unknown format code '{}' for object of type 'int'", spec.type));
    }
    if (spec.precision >= 0) interp.fail("Precision not allowed in integer format specifier");
    uint64_t magnitude = static_cast<uint64_t>(value.integer());
    digits = int_digits(negative ? uint64_t{0} - magnitude : magnitude, spec.type);
    bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
    if (spec.group != 0) digits = grouped(digits, spec.group, decimal ? 3 : 4);
    if (spec.alternate && !decimal) prefix = std::string("0") + spec.type;
  }
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return align_text(interp, Text(sign + prefix + digits, true), spec, true);
}

Text format_value(Interp& interp, const Value& value, const FormatSpec& spec, bool empty_spec) {
  if (empty_spec) return to_text(interp, value);
  if (value.is_str()) {
    if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.group != 0 || spec.sign != '-') {
      interp.fail("Invalid format specifier for a str");
    }
    Text text = value.text();
    if (spec.precision >= 0) text = text.sub(0, byte_of_char(text.view(), static_cast<size_t>(spec.precision)));
    return align_text(interp, text, spec, false);
  }
  if (value.is_number()) return format_number(interp, value, spec);
  interp.fail(fmt::format("unsupported format string passed to {}.__format__", type_name(value.kind())));
}

}  // namespace ingot::jinja
