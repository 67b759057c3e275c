#include "grammar/schema/notation.h"

#include "grammar/schema/emit.h"

namespace ingot::grammar {

Symbol Members::value(SchemaEmitter& emitter, SetId set) { return emitter.value(set); }

JsonNotation::JsonNotation(GrammarBuilder& builder)
    : builder_(builder), parts_(builder), spelling_(builder.regexes()) {}

// `,` if it is not the first, the key with its quotes, and `:`: one lexeme.
Symbol JsonNotation::quoted_key(bool later, Expr spelled) {
  Regexes& pool = builder_.regexes();
  const Expr before = later ? pool.concat(pool.literal(","), parts_.space) : parts_.space;
  return builder_.lexeme(pool.concat({before, pool.literal("\""), spelled, pool.literal("\":")}));
}

Symbol JsonNotation::key(bool later, std::string_view name) {
  return quoted_key(later, spelling_.spelled(builder_.regexes().literal(name)));
}

Symbol JsonNotation::keys(bool later, Expr names, bool all) {
  return quoted_key(later, all ? builder_.regexes().star(parts_.string_char) : spelling_.spelled(names));
}

Symbol JsonNotation::words(bool null, bool yes, bool no) {
  if (null && yes && no) return parts_.literals;
  std::vector<std::string> words;
  if (null) words.emplace_back("null");
  if (yes) words.emplace_back("true");
  if (no) words.emplace_back("false");
  return parts_.spaced(builder_.regexes().literals(std::move(words)));
}

Symbol JsonNotation::quoted(Expr spelled) {
  Regexes& pool = builder_.regexes();
  const Expr quote = pool.literal("\"");
  return parts_.spaced(pool.concat({quote, spelled, quote}));
}

Symbol JsonNotation::text(Expr characters) { return quoted(spelling_.spelled(characters)); }

Symbol JsonNotation::text_value(const std::function<Symbol()>& make) {
  const Symbol open = parts_.spaced("\""), close = builder_.text("\"");
  const Symbol text = spelled_part(
      builder_, [this](Expr expr) { return spelling_.spelled(expr); }, make);
  return builder_.sequence({open, text, close});
}

Symbol JsonNotation::text_of_length(uint32_t min, uint32_t max) {
  return quoted(builder_.regexes().repeat(parts_.string_char, min, max));
}

}  // namespace ingot::grammar
