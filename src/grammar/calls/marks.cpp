#include "grammar/calls/marks.h"

#include "grammar/call_form.h"

namespace ingot::grammar {
namespace {

constexpr uint32_t kMostSpace = 8;  // templates write two line ends at most

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::vector<MarkPart> mark_parts(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<MarkPart> parts;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t size = mark_size(text.substr(i));
    const std::optional<int32_t> token = size > 0 ? vocabulary.special_token(text.substr(i, size)) : std::nullopt;
    if (!token) {
      ++i;
      continue;
    }
    if (i > begin) parts.push_back({text.substr(begin, i - begin)});
    parts.push_back({text.substr(i, size), *token});
    begin = i += size;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
  return parts;
}

Marks::Marks(GrammarBuilder& builder, const Vocabulary& vocabulary)
    : builder_(builder),
      vocabulary_(vocabulary),
      space_(builder.regexes().repeat(builder.regexes().bytes(ByteSet::of(" \t\r\n")), 0, kMostSpace)),
      any_text_(builder.regexes().star(builder.regexes().any_char())) {}

Expr Marks::literal(std::string_view text) {
  Regexes& pool = builder_.regexes();
  std::vector<Expr> parts;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_space(text[end]) == is_space(text[i])) ++end;
    const std::string_view run = text.substr(i, end - i);
    // Blanks between two words are the form's own; other white space is not.
    const bool within = i > 0 && end < text.size() && is_letter(text[i - 1]) && is_letter(text[end]) && run == " ";
    parts.push_back(is_space(text[i]) && !within ? space_ : pool.literal(run));
    i = end;
  }
  return pool.concat(parts);
}

Symbol Marks::around(Expr first, std::string_view text, Expr then) {
  Regexes& pool = builder_.regexes();
  std::vector<Symbol> symbols;
  Expr open = first;  // what is not a symbol yet
  for (const MarkPart& part : mark_parts(vocabulary_, text)) {
    if (part.token < 0) {
      open = pool.concat(open, literal(part.text));
      continue;
    }
    if (vocabulary_.is_end(part.token)) continue;  // the answer ends there by itself
    symbols.push_back(builder_.lexeme(open));
    symbols.push_back(builder_.special_token(vocabulary_, part.token));
    open = kEmpty;
  }
  symbols.push_back(builder_.lexeme(pool.concat(open, then)));
  return builder_.sequence(symbols);
}

Symbol Marks::symbol(std::string_view text) { return around(kEmpty, text, kEmpty); }

Expr Marks::any_but(std::string_view end) {
  const std::vector<MarkPart> parts = mark_parts(vocabulary_, end);
  if (parts.empty() || parts[0].token >= 0) return any_text_;
  end = parts[0].text;
  Regexes& pool = builder_.regexes();
  return pool.without(any_text_, pool.concat({any_text_, pool.literal(end), any_text_}));
}

Expr Marks::no_begin_of(std::string_view end) {
  const std::vector<MarkPart> parts = mark_parts(vocabulary_, end);
  if (parts.empty() || parts[0].token >= 0) return any_text_;
  const auto first = static_cast<unsigned char>(parts[0].text.front());
  Regexes& pool = builder_.regexes();
  return pool.star(pool.chars(other_chars({{first, first}})));
}

}  // namespace ingot::grammar
