#include "grammar/calls/literal_notation.h"

#include <array>

#include "files/json.h"

namespace ingot::grammar {
namespace {

// One character between quotes of Python: itself, or one of the escapes that JSON has too.
Expr python_char(Regexes& pool, char quote, Expr unicode_escape) {
  std::vector<CharRange> marks{{static_cast<uint32_t>('\\'), '\\'},
                               {static_cast<uint32_t>(quote), static_cast<uint32_t>(quote)}};
  const Expr escape = pool.concat(pool.literal("\\"), pool.bytes(ByteSet::of("\"'\\bfnrt")));
  return pool.any_of({pool.chars(other_chars(std::move(marks))), escape, unicode_escape});
}

}  // namespace

LiteralNotation::LiteralNotation(GrammarBuilder& builder, Marks& marks, std::string_view quote, bool sorted)
    : builder_(builder),
      pool_(builder.regexes()),
      marks_(marks),
      quote_(quote),
      sorted_(sorted),
      parts_(builder),
      double_(pool_, '"', true),
      single_(pool_, '\'', true) {
  double_char_ = python_char(pool_, '"', parts_.unicode_escape);
  single_char_ = python_char(pool_, '\'', parts_.unicode_escape);
}

Expr LiteralNotation::before(bool later) {
  return later ? pool_.concat(pool_.literal(","), parts_.space) : parts_.space;
}

// As serve's LiteralStream reads them.
Expr LiteralNotation::bare_names() {
  ByteSet set = ByteSet::of("_-.+");
  for (const auto& [first, last] : {std::pair('a', 'z'), std::pair('A', 'Z'), std::pair('0', '9')}) {
    set = set | ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
  }
  const std::array<CharRange, 1> beyond = {CharRange{0x80, 0x10FFFF}};
  return pool_.repeat(pool_.any_of({pool_.bytes(set), pool_.chars(beyond)}), 1, 200);
}

Symbol LiteralNotation::outer_key(bool later, Expr names) {
  const Expr bare = pool_.all_of({names, bare_names()});
  return builder_.lexeme(pool_.concat({before(later), bare, pool_.literal(quote_.empty() ? "=" : ":")}));
}

Symbol LiteralNotation::key(bool later, std::string_view name) { return keys(later, pool_.literal(name), false); }

Symbol LiteralNotation::keys(bool later, Expr names, bool all) {
  if (!quote_.empty()) return outer_key(later, names);
  const auto in = [&](const char* quote, Expr text) {
    return builder_.lexeme(
        pool_.concat({before(later), pool_.literal(quote), text, pool_.literal(quote), pool_.literal(":")}));
  };
  return builder_.choice({in("\"", all ? pool_.star(double_char_) : double_.spelled(names)),
                          in("'", all ? pool_.star(single_char_) : single_.spelled(names))});
}

Symbol LiteralNotation::words(bool null, bool yes, bool no) {
  std::vector<std::string> words;
  const auto add = [&](bool has, const char* json, const char* python) {
    if (!has) return;
    words.emplace_back(json);
    words.emplace_back(python);
  };
  add(null, "null", "None");
  add(yes, "true", "True");
  add(no, "false", "False");
  return parts_.spaced(pool_.literals(std::move(words)));
}

Symbol LiteralNotation::marked(Expr text) {
  const Symbol quote = marks_.symbol(quote_);
  const Expr inside = pool_.all_of({text, marks_.any_but(quote_)});
  return builder_.sequence({builder_.lexeme(parts_.space), quote, builder_.lexeme(inside), quote});
}

Symbol LiteralNotation::quoted(Expr in_double, Expr in_single) {
  const auto in = [&](const char* quote, Expr text) {
    return parts_.spaced(pool_.concat({pool_.literal(quote), text, pool_.literal(quote)}));
  };
  return builder_.choice({in("\"", in_double), in("'", in_single)});
}

Symbol LiteralNotation::text_value(const std::function<Symbol()>& make) {
  if (!quote_.empty()) {
    const Symbol quote = marks_.symbol(quote_);
    const Expr fits = marks_.no_begin_of(quote_);
    const auto held = [this, fits](Expr expr) { return pool_.all_of({expr, fits}); };
    return builder_.sequence({builder_.lexeme(parts_.space), quote, spelled_part(builder_, held, make), quote});
  }
  const Symbol open = parts_.spaced("\""), close = builder_.text("\"");
  const Symbol text = spelled_part(
      builder_, [this](Expr expr) { return double_.spelled(expr); }, make);
  return builder_.sequence({open, text, close});
}

Symbol LiteralNotation::any_text() {
  if (!quote_.empty()) return marked(pool_.star(pool_.any_char()));
  return quoted(pool_.star(double_char_), pool_.star(single_char_));
}

Symbol LiteralNotation::text(Expr characters) {
  if (!quote_.empty()) return marked(characters);
  return quoted(double_.spelled(characters), single_.spelled(characters));
}

Symbol LiteralNotation::text_of_length(uint32_t min, uint32_t max) {
  if (!quote_.empty()) return marked(pool_.repeat(pool_.any_char(), min, max));
  return quoted(pool_.repeat(double_char_, min, max), pool_.repeat(single_char_, min, max));
}

Symbol LiteralNotation::constant(const std::string& json) {
  const Json value = parse_json(json, "constant");
  if (value.is_string()) {
    return text(pool_.literal(std::string_view(value.get_string().data(), value.get_string().size())));
  }
  if (value.is_null() || value.is_bool()) {
    return words(value.is_null(), value.is_bool() && value.get_bool(), value.is_bool() && !value.get_bool());
  }
  return parts_.spaced(json);
}

void LiteralNotation::make_values() {
  if (made_) return;
  made_ = true;
  value_ = builder_.rule("value");
  object_ = builder_.rule("object");
  array_ = builder_.rule("array");
  const Expr any_name = pool_.star(pool_.any_char());
  const Symbol first = builder_.sequence({keys(false, any_name, true), value_});
  const Symbol more = builder_.repeat(builder_.sequence({keys(true, any_name, true), value_}), 0, kUnbounded);
  for (const Symbol one : {any_text(), any_number(), words(true, true, true), object_, array_}) {
    builder_.add(value_, {one});
  }
  builder_.add(object_, {open(), builder_.optional(builder_.sequence({first, more})), close()});
  builder_.add(array_, {open_array(), builder_.separated(value_, comma(), 0, kUnbounded), close_array()});
}

Symbol LiteralNotation::any_value() {
  make_values();
  return value_;
}

Symbol LiteralNotation::any_object() {
  make_values();
  return object_;
}

Symbol LiteralNotation::any_array() {
  make_values();
  return array_;
}

}  // namespace ingot::grammar
