// GBNF, the grammars of llama.cpp: rules `name ::= …`, the first symbol is `root`.
#include <algorithm>

#include "grammar/front_ends.h"
#include "grammar/rules/ebnf.h"
#include "grammar/rules/scan.h"

namespace ingot::grammar {

namespace {

constexpr uint32_t kMaxRepeat = 100'000;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfReader {
 public:
  GbnfReader(std::string_view text, GrammarBuilder& builder)
      : scan_(text), pool_(builder.regexes()), ebnf_(builder), max_depth_(builder.limits().depth) {}

  Symbol read() {
    skip(true);
    while (scan_.more()) {
      const std::string place = scan_.place();
      const std::string name(scan_.take_while(is_word));
      if (name.empty()) scan_.fail("the name of a rule is expected");
      skip(false);
      if (!scan_.take("::=")) scan_.fail("::= is expected");
      skip(true);
      const EbnfId body = alternatives(false);
      ebnf_.define(name, body, place);
      if (scan_.more() && scan_.peek() != '\n' && scan_.peek() != '\r') scan_.fail("the end of the line is expected");
      skip(true);
    }
    return ebnf_.build("root", "");
  }

 private:
  // Blanks and comments, and line ends where `lines` says so.
  void skip(bool lines) {
    for (;;) {
      const char c = scan_.peek();
      if (c == '#') {
        scan_.take_while([](char other) { return other != '\n' && other != '\r'; });
      } else if (scan_.more() && (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))) {
        scan_.next();
      } else {
        return;
      }
    }
  }

  // A line that begins with | goes on with the rule.
  bool goes_on() {
    if (scan_.peek() == '|') return true;
    const size_t before = scan_.position();
    skip(true);
    if (scan_.peek() == '|') return true;
    scan_.go_to(before);
    return false;
  }

  EbnfId alternatives(bool nested) {
    if (++depth_ > max_depth_) scan_.fail("nested too deeply");
    std::vector<EbnfId> choices{sequence(nested)};
    while (goes_on()) {
      scan_.next();
      skip(true);
      choices.push_back(sequence(nested));
    }
    depth_--;
    return ebnf_.choice(std::move(choices));
  }

  EbnfId sequence(bool nested) {
    std::vector<EbnfId> parts;
    for (;;) {
      const char c = scan_.peek();
      if (c == '"') {
        parts.push_back(literal());
      } else if (c == '[') {
        parts.push_back(char_class());
      } else if (c == '.') {
        scan_.next();
        parts.push_back(ebnf_.expr(pool_.any_char()));
      } else if (c == '(') {
        scan_.next();
        skip(true);
        parts.push_back(alternatives(true));
        if (!scan_.take(")")) scan_.fail(") is expected");
      } else if (c == '<' || c == '!') {
        scan_.fail("tokens in a grammar are not supported");
      } else if (scan_.more() && is_word(c)) {
        const std::string place = scan_.place();
        parts.push_back(ebnf_.reference(scan_.take_while(is_word), place));
      } else {
        return ebnf_.sequence(std::move(parts));
      }
      skip(nested);
      repetitions(parts.back(), nested);
    }
  }

  void repetitions(EbnfId& part, bool nested) {
    for (;;) {
      if (scan_.take("*")) {
        part = ebnf_.repeat(part, 0, kUnbounded);
      } else if (scan_.take("+")) {
        part = ebnf_.repeat(part, 1, kUnbounded);
      } else if (scan_.take("?")) {
        part = ebnf_.repeat(part, 0, 1);
      } else if (scan_.take("{")) {
        part = counted(part);
      } else {
        return;
      }
      skip(nested);
    }
  }

  EbnfId counted(EbnfId part) {
    skip(false);
    const std::optional<uint32_t> low = scan_.number(kMaxRepeat);
    if (!low) scan_.fail("a number is expected");
    skip(false);
    uint32_t high = *low;
    if (scan_.take(",")) {
      skip(false);
      high = scan_.number(kMaxRepeat).value_or(kUnbounded);
      skip(false);
    }
    if (!scan_.take("}")) scan_.fail("}} is expected");
    if (high < *low) scan_.fail("a repetition from {} to {}", *low, high);
    return ebnf_.repeat(part, *low, high);
  }

  uint32_t one_char() {
    if (!scan_.more()) scan_.fail("the text ends within a literal");
    if (scan_.peek() != '\\') return scan_.next_char();
    scan_.next();
    const char c = scan_.peek();
    if (c == '\0') scan_.fail("the text ends within a literal");
    scan_.next();
    switch (c) {
      case 'x':
        return scan_.hex(2);
      case 'u':
        return scan_.hex(4);
      case 'U':
        return scan_.hex(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      default:
        scan_.fail("an unknown escape");
    }
  }

  EbnfId literal() {
    scan_.next();
    std::string text;
    while (scan_.peek() != '"' || !scan_.more()) {
      const uint32_t cp = one_char();
      if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) scan_.fail("no character");
      utf8_append(text, cp);
    }
    scan_.next();
    return ebnf_.expr(pool_.literal(text));
  }

  EbnfId char_class() {
    scan_.next();
    const bool negated = scan_.take("^");
    std::vector<CharRange> ranges;
    while (scan_.peek() != ']') {
      const uint32_t first = one_char();
      uint32_t last = first;
      if (scan_.peek() == '-' && scan_.peek(1) != ']') {
        scan_.next();
        last = one_char();
        if (last < first) scan_.fail("a range from high to low");
      }
      ranges.push_back({first, last});
    }
    scan_.next();
    ranges = negated ? other_chars(std::move(ranges)) : normalized(std::move(ranges));
    return ebnf_.expr(pool_.chars(ranges));
  }

  TextScan scan_;
  Regexes& pool_;
  Ebnf ebnf_;
  const size_t max_depth_;
  size_t depth_ = 0;
};

}  // namespace

std::shared_ptr<const Grammar> gbnf_grammar(std::string_view text, const Limits& limits) {
  GrammarBuilder builder(limits);
  return builder.build(gbnf_symbol(builder, text));
}

Symbol gbnf_symbol(GrammarBuilder& builder, std::string_view text) { return GbnfReader(text, builder).read(); }

}  // namespace ingot::grammar
