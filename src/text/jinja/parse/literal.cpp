#include "text/jinja/parse/literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Digits of `base` with single underscores between them (also before the first when `lead`); the end of them.
size_t digits(std::string_view s, size_t pos, int base, bool lead) {
  size_t end = pos;
  for (;;) {
    size_t at = end;
    if (at < s.size() && s[at] == '_' && (lead || end > pos)) ++at;
    if (at >= s.size() || digit_value(s[at]) >= base) return end;
    end = at + 1;
  }
}

std::string without_underscores(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c != '_') out += c;
  }
  return out;
}

bool read_integer(std::string_view text, int base, int64_t& out) {
  std::string plain = without_underscores(text);
  auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), out, base);
  return error == std::errc() && end == plain.data() + plain.size();
}

// Where a float literal that begins at `pos` ends, or 0.
size_t float_end(std::string_view s, size_t pos) {
  if (pos > 0 && s[pos - 1] == '.') return 0;
  size_t end = digits(s, pos, 10, false);
  if (end == pos) return 0;
  bool fraction = false;
  if (end + 1 < s.size() && s[end] == '.' && is_digit(s[end + 1])) {
    end = digits(s, end + 1, 10, false);
    fraction = true;
  }
  if (end < s.size() && (s[end] == 'e' || s[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < s.size() && (s[exponent] == '+' || s[exponent] == '-')) ++exponent;
    size_t after = digits(s, exponent, 10, false);
    if (after > exponent) return after;
  }
  return fraction ? end : 0;
}

struct Escape {
  char name;
  char value;
};
constexpr Escape kEscapes[] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'a', '\a'}, {'b', '\b'},
                               {'f', '\f'},  {'n', '\n'},  {'r', '\r'}, {'t', '\t'}, {'v', '\v'}};

bool simple_escape(char name, std::string& out) {
  for (const Escape& e : kEscapes) {
    if (e.name == name) {
      out += e.value;
      return true;
    }
  }
  return false;
}

// \xHH, \uHHHH, \UHHHHHHHH; `pos` stands on the letter and is moved behind the digits.
std::string_view hex_escape(std::string_view s, size_t& pos, std::string& out) {
  size_t n = s[pos] == 'x' ? 2 : s[pos] == 'u' ? 4 : 8;
  uint32_t cp = 0;
  for (size_t i = 1; i <= n; ++i) {
    int d = pos + i < s.size() ? digit_value(s[pos + i]) : 99;
    if (d >= 16) return "truncated hexadecimal escape in a string";
    cp = cp * 16 + static_cast<uint32_t>(d);
  }
  if (cp > 0x10FFFF) return "illegal Unicode character";
  if (cp >= 0xD800 && cp < 0xE000) return "a surrogate is no character";
  utf8_append(out, cp);
  pos += n + 1;
  return {};
}

std::string_view strip(std::string_view s) {
  size_t begin = skip_space(s, 0);
  size_t end = skip_space_back(s, s.size());
  return begin >= end ? std::string_view() : s.substr(begin, end - begin);
}

}  // namespace

NumberLiteral read_number(std::string_view s, size_t pos) {
  NumberLiteral n;
  if (!is_digit(s[pos])) return n;
  if (size_t end = float_end(s, pos); end != 0) {
    std::string plain = without_underscores(s.substr(pos, end - pos));
    n.is_float = true;
    n.size = end - pos;
    auto [stop, error] = std::from_chars(plain.data(), plain.data() + plain.size(), n.real);
    if (error == std::errc::result_out_of_range) {
      n.real = plain.find("e-") != std::string::npos || plain.find("E-") != std::string::npos
                   ? 0
                   : std::numeric_limits<double>::infinity();
    }
    return n;
  }
  int base = 10;
  size_t begin = pos, end = pos;
  if (s[pos] == '0') {
    char kind = pos + 1 < s.size() ? static_cast<char>(s[pos + 1] | 32) : '\0';
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    if (base != 10) {
      begin = pos + 2;
      end = digits(s, begin, base, true);
      if (end == begin) base = 10;
    }
    if (base == 10) {
      begin = pos;
      end = digits(s, pos, 1, false);  // 0, 00, 0_0: other digits begin another number
    }
  } else {
    end = digits(s, pos, 10, false);
  }
  n.size = end - pos;
  n.too_large = !read_integer(s.substr(begin, end - begin), base, n.integer);
  return n;
}

std::string_view unescape(std::string_view s, std::string& out) {
  for (size_t i = 0; i < s.size();) {
    if (s[i] != '\\') {
      out += s[i++];
      continue;
    }
    if (++i >= s.size()) return "\\ at end of string";
    char c = s[i];
    if (simple_escape(c, out)) {
      ++i;
    } else if (c == '\n') {
      ++i;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      if (std::string_view error = hex_escape(s, i, out); !error.empty()) return error;
    } else if (c >= '0' && c <= '7') {
      uint32_t cp = 0;
      for (int n = 0; n < 3 && i < s.size() && s[i] >= '0' && s[i] <= '7'; ++n) {
        cp = cp * 8 + static_cast<uint32_t>(s[i++] - '0');
      }
      utf8_append(out, cp);
    } else if (c == 'N') {
      return "character names in strings are not supported";
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // Python writes the character as an escape of its own before it reads escapes, so the two backslashes meet.
      Char ch = char_at(s, i);
      out += ch.cp < 0x100     ? fmt::format("\\x{:02x}", ch.cp)
             : ch.cp < 0x10000 ? fmt::format("\\u{:04x}", ch.cp)
                               : fmt::format("\\U{:08x}", ch.cp);
      i += ch.size;
    } else {
      out += '\\';
      out += c;
      ++i;
    }
  }
  return {};
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  text = strip(text);
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  char prefix = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 32) : '\0';
  int named = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  bool lead = false;
  if (named != 0 && (base == named || base == 0)) {
    text.remove_prefix(2);
    base = named;
    lead = true;
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos) return {};
    base = 10;
  }
  if (base < 2 || base > 36 || text.empty() || digits(text, 0, base, lead) != text.size()) return {};
  std::string plain = (negative ? "-" : "") + without_underscores(text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc()) return {};
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {  // only between digits
      if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return {};
      continue;
    }
    plain += static_cast<char>(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
  }
  double sign = !plain.empty() && plain[0] == '-' ? -1 : 1;
  if (!plain.empty() && (plain[0] == '-' || plain[0] == '+')) plain.erase(0, 1);
  if (plain == "inf" || plain == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (plain == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (plain.empty() || !(is_digit(plain[0]) || (plain[0] == '.' && plain.size() > 1))) return {};
  double value = 0;
  auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (end != plain.data() + plain.size()) return {};
  if (error == std::errc::result_out_of_range) {
    value = plain.find("e-") != std::string::npos ? 0 : std::numeric_limits<double>::infinity();
  }
  return sign * value;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  if (exponent >= 16 || exponent < -4) {
    return std::string(text);  // "1e+16", "1.5e-05": two digits of exponent, as Python has it
  }
  auto [fixed_end, fixed_error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

}  // namespace ingot::jinja
