#include "grammar/json_parts.h"

#include <fmt/format.h>

namespace ingot::grammar {
namespace {

constexpr uint32_t kIndent = 64;  // blanks and tabs after a line end

// \uXXXX: a character by itself, or two halves of one.
Expr escape_by_number(Regexes& r) {
  const auto set = [&](std::string_view bytes) { return r.bytes(ByteSet::of(bytes)); };
  const Expr hex = set("0123456789abcdefABCDEF");
  const Expr u = r.literal("\\u"), d = set("dD");
  const Expr basic = r.concat({set("0123456789abcABCefEF"), hex, hex, hex});
  const Expr below = r.concat({d, set("01234567"), hex, hex});
  const Expr pair = r.concat({d, set("89abAB"), hex, hex, u, d, set("cdefCDEF"), hex, hex});
  return r.concat(u, r.any_of({basic, below, pair}));
}

}  // namespace

JsonParts::JsonParts(GrammarBuilder& builder) : builder_(builder) {
  Regexes& r = builder.regexes();
  const Expr blank = r.literal(" "), digit = r.bytes(ByteSet::range('0', '9'));
  const Expr line =
      r.concat({r.optional(r.literal("\r")), r.literal("\n"), r.repeat(r.bytes(ByteSet::of(" \t")), 0, kIndent)});
  space = r.optional(r.any_of({blank, line}));
  const std::array<CharRange, 3> plain = {CharRange{0x20, 0x21}, CharRange{0x23, 0x5B}, CharRange{0x5D, 0x10FFFF}};
  const Expr escape = r.concat(r.literal("\\"), r.bytes(ByteSet::of("\"\\/bfnrt")));
  unicode_escape = escape_by_number(r);
  string_char = r.any_of({r.chars(plain), escape, unicode_escape});
  string = r.concat({r.literal("\""), r.star(string_char), r.literal("\"")});
  const Expr whole = r.any_of({r.literal("0"), r.concat(r.bytes(ByteSet::range('1', '9')), r.star(digit))});
  integer = r.concat(r.optional(r.literal("-")), whole);
  const Expr exponent = r.concat({r.bytes(ByteSet::of("eE")), r.optional(r.bytes(ByteSet::of("+-"))), r.plus(digit)});
  number = r.concat({integer, r.optional(r.concat(r.literal("."), r.plus(digit))), r.optional(exponent)});
  open_object = spaced("{");
  close_object = spaced("}");
  open_array = spaced("[");
  close_array = spaced("]");
  comma = builder.text(",");
  colon = builder.text(":");
  any_string = any_key = spaced(string);
  any_number = spaced(number);
  literals = spaced(r.literals({"true", "false", "null"}));
  for (const Symbol lexeme :
       {open_object, close_object, open_array, close_array, comma, colon, any_string, any_number, literals}) {
    builder.mark_common(lexeme);
  }
}

Expr JsonParts::quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    static constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kShort = "\"\\bfnrt";
    if (const size_t at = kPlain.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kShort[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return builder_.regexes().literal(out);
}

Symbol JsonParts::spaced(Expr expr) { return builder_.lexeme(builder_.regexes().concat(space, expr)); }
Symbol JsonParts::spaced(std::string_view text) { return spaced(builder_.regexes().literal(text)); }

void JsonParts::make_values() {
  if (made_) return;
  made_ = true;
  value_ = builder_.rule("value");
  object_ = builder_.rule("object");
  array_ = builder_.rule("array");
  const Symbol member = builder_.sequence({any_key, colon, value_});
  for (const Symbol one : {any_string, any_number, literals, object_, array_}) builder_.add(value_, {one});
  builder_.add(object_, {open_object, builder_.separated(member, comma, 0, kUnbounded), close_object});
  builder_.add(array_, {open_array, builder_.separated(value_, comma, 0, kUnbounded), close_array});
}

Symbol JsonParts::any_value() {
  make_values();
  return value_;
}

Symbol JsonParts::any_object() {
  make_values();
  return object_;
}

Symbol JsonParts::any_array() {
  make_values();
  return array_;
}

}  // namespace ingot::grammar
