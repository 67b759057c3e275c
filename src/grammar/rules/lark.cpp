// Lark, as OpenAI's custom tools send it: rules (lower case) over terminals (upper case), the first is `start`.
//
// Taken: strings with the flag i, /regular expressions/ with the flags i, s, u; ranges "a".."z"; ( ) [ ] | * + ? ~n
// ~n..m; aliases (-> name) and the marks ? and ! of rules, which say nothing about the language; priorities likewise;
// %import common.X; %ignore; <name> for one of the model's special tokens. Terminals are regular and are not read by
// the longest match: the language is that of the rules.
#include <algorithm>
#include <array>
#include <map>

#include "grammar/front_ends.h"
#include "grammar/regex/pattern.h"
#include "grammar/rules/ebnf.h"
#include "grammar/rules/scan.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {

namespace {

constexpr uint32_t kMaxRepeat = 100'000;

struct Common {
  std::string_view name, pattern;
};

// Lark's own grammar `common`.
constexpr std::array<Common, 23> kCommon = {{
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:[eE][+-]?[0-9]+)?|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z0-9_]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
}};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_name(char c) { return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_'; }
bool is_terminal(std::string_view name) {
  return std::any_of(name.begin(), name.end(), is_upper) && std::none_of(name.begin(), name.end(), is_lower);
}

class LarkReader {
 public:
  LarkReader(std::string_view text, const Vocabulary& vocabulary, GrammarBuilder& builder)
      : scan_(text),
        vocabulary_(vocabulary),
        builder_(builder),
        pool_(builder.regexes()),
        ebnf_(builder),
        max_depth_(builder.limits().depth) {}

  Symbol read() {
    // What is ignored between terminals must be known before the rules: they are read twice.
    for (const bool only_directives : {true, false}) {
      scan_.go_to(0);
      statements(only_directives);
      if (only_directives) begin_rules();
    }
    const Symbol start = ebnf_.build("start", "");
    return ignored_ == kNothing ? start : builder_.sequence({start, builder_.lexeme(pool_.star(ignored_))});
  }

 private:
  void skip(bool lines) {
    for (;;) {
      const char c = scan_.peek();
      if (scan_.at("//") || c == '#') {
        scan_.take_while([](char other) { return other != '\n'; });
      } else if (scan_.more() && (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))) {
        scan_.next();
      } else {
        return;
      }
    }
  }

  void statements(bool only_directives) {
    terminals_only_ = only_directives;
    for (skip(true); scan_.more(); skip(true)) {
      if (scan_.peek() == '%') {
        directive(only_directives);
      } else {
        definition(only_directives);
      }
      skip(false);
      if (scan_.more() && scan_.peek() != '\n') scan_.fail("the end of the line is expected");
    }
  }

  void directive(bool first) {
    scan_.next();
    const std::string_view name = scan_.take_while(is_lower);
    skip(false);
    if (name == "import") {
      import(first);
    } else if (name == "ignore") {
      in_terminal_ = true;
      const EbnfId body = alternatives();
      if (first) ignore_parts_.push_back(body);
      in_terminal_ = false;
    } else {
      scan_.fail("%{} is not supported", name);
    }
  }

  void import(bool first) {
    if (!scan_.take("common")) scan_.fail("only %import common is supported");
    const auto one = [&] {
      const std::string place = scan_.place();
      const std::string name(scan_.take_while(is_name));
      std::string as = name;
      skip(false);
      if (scan_.take("->")) {
        skip(false);
        as = scan_.take_while(is_name);
      }
      const auto known =
          std::find_if(kCommon.begin(), kCommon.end(), [&](const Common& common) { return common.name == name; });
      if (known == kCommon.end()) throw GrammarError(place, "[grammar] common has no terminal \"{}\"", name);
      if (first) terminals_.define(as, terminals_.expr(parse_pattern(pool_, known->pattern)), place);
    };
    if (scan_.take(".")) return one();
    skip(false);
    if (!scan_.take("(")) scan_.fail("( is expected");
    do {
      skip(true);
      one();
      skip(true);
    } while (scan_.take(","));
    if (!scan_.take(")")) scan_.fail(") is expected");
  }

  void definition(bool first) {
    scan_.take_while([](char c) { return c == '?' || c == '!'; });
    const std::string place = scan_.place();
    const std::string name(scan_.take_while(is_name));
    if (name.empty()) scan_.fail("the name of a rule is expected");
    if (scan_.peek() == '{') scan_.fail("templates are not supported");
    if (scan_.take(".")) scan_.number(kMaxRepeat);  // a priority
    skip(true);
    if (!scan_.take(":")) scan_.fail(": is expected");
    skip(true);
    in_terminal_ = is_terminal(name);
    const EbnfId body = alternatives();
    if (in_terminal_ == first) target().define(name, body, place);
    in_terminal_ = false;
  }

  // Terminals are expressions from here on.
  void begin_rules() {
    std::vector<EbnfId> all = ignore_parts_;
    terminals_.define("%ignore", terminals_.choice(std::move(all)), "");
    terminals_.find_expressions();
    ignored_ = terminals_.expression("%ignore", "");
  }

  // The first time terminals count, the second time rules; the others are read to find their end.
  Ebnf& target() {
    if (in_terminal_ != terminals_only_) return unused_;
    return in_terminal_ ? terminals_ : ebnf_;
  }
  // A terminal where a rule has it: what is ignored may stand before it.
  EbnfId terminal(Expr expr) {
    if (in_terminal_ || ignored_ == kNothing) return target().expr(expr);
    return target().expr(pool_.concat(pool_.star(ignored_), expr));
  }

  bool goes_on() {
    if (scan_.peek() == '|') return true;
    const size_t before = scan_.position();
    skip(true);
    if (scan_.peek() == '|') return true;
    scan_.go_to(before);
    return false;
  }

  EbnfId alternatives() {
    if (++depth_ > max_depth_) scan_.fail("nested too deeply");
    std::vector<EbnfId> choices{sequence()};
    while (goes_on()) {
      scan_.next();
      skip(true);
      choices.push_back(sequence());
    }
    depth_--;
    return target().choice(std::move(choices));
  }

  EbnfId sequence() {
    std::vector<EbnfId> parts;
    for (;;) {
      const char c = scan_.peek();
      if (!scan_.more() || c == '\n' || c == '|' || c == ')' || c == ']') break;
      if (scan_.take("->")) {
        skip(false);
        scan_.take_while(is_name);
        skip(nested_);
        break;
      }
      parts.push_back(atom());
      repetitions(parts.back());
      skip(nested_);
    }
    return target().sequence(std::move(parts));
  }

  EbnfId atom() {
    const char c = scan_.peek();
    if (c == '(' || c == '[') {
      scan_.next();
      const bool outer = nested_;
      nested_ = true;
      skip(true);
      EbnfId inner = alternatives();
      skip(true);
      if (!scan_.take(c == '(' ? ")" : "]")) scan_.fail("{} is expected", c == '(' ? ")" : "]");
      nested_ = outer;
      return c == '(' ? inner : target().repeat(inner, 0, 1);
    }
    if (c == '"') return literal();
    if (c == '/') return pattern();
    if (c == '<') return special_token();
    if (!is_name(c)) scan_.fail("unexpected \"{}\"", utf8_printable(std::string(1, c)));
    const std::string place = scan_.place();
    const std::string_view name = scan_.take_while(is_name);
    if (scan_.peek() == '{') scan_.fail("templates are not supported");
    if (!is_terminal(name)) {
      if (in_terminal_) throw GrammarError(place, "[grammar] a terminal uses the rule \"{}\"", name);
      return target().reference(name, place);
    }
    if (terminals_only_ || in_terminal_) return target().reference(name, place);
    return terminal(terminals_.expression(name, place));
  }

  void repetitions(EbnfId& part) {
    for (;;) {
      if (scan_.take("*")) {
        part = target().repeat(part, 0, kUnbounded);
      } else if (scan_.take("+")) {
        part = target().repeat(part, 1, kUnbounded);
      } else if (scan_.take("?")) {
        part = target().repeat(part, 0, 1);
      } else {
        const size_t before = scan_.position();
        skip(false);
        if (!scan_.take("~")) return scan_.go_to(before);
        skip(false);
        const std::optional<uint32_t> low = scan_.number(kMaxRepeat);
        if (!low) scan_.fail("a number is expected");
        uint32_t high = *low;
        const size_t after = scan_.position();
        skip(false);
        if (scan_.take("..")) {
          skip(false);
          high = scan_.number(kMaxRepeat).value_or(0);
        } else {
          scan_.go_to(after);
        }
        if (high < *low) scan_.fail("a repetition from {} to {}", *low, high);
        part = target().repeat(part, *low, high);
      }
    }
  }

  std::string quoted() {
    if (!scan_.take("\"")) scan_.fail("\" is expected");
    std::string text;
    while (scan_.peek() != '"') {
      if (!scan_.more() || scan_.peek() == '\n') scan_.fail("a string does not end");
      if (!scan_.take("\\")) {
        utf8_append(text, scan_.next_char());
        continue;
      }
      const char c = scan_.peek();
      if (!scan_.more()) scan_.fail("a string does not end");
      scan_.next();
      constexpr std::string_view kNames = "nrtfv0\\\"'/", kChars("\n\r\t\f\v\0\\\"'/", 10);
      if (c == 'x' || c == 'u' || c == 'U') {
        utf8_append(text, scan_.hex(c == 'x' ? 2 : c == 'u' ? 4 : 8));
      } else if (const size_t at = kNames.find(c); at != std::string_view::npos) {
        text += kChars[at];
      } else {
        scan_.fail("an unknown escape");
      }
    }
    scan_.next();
    return text;
  }

  EbnfId literal() {
    const std::string text = quoted();
    if (scan_.at("..")) {
      scan_.take("..");
      const std::string last = quoted();
      uint32_t from = 0, to = 0;
      const bool ok = utf8_decode(text, 0, from) == text.size() && utf8_decode(last, 0, to) == last.size();
      if (!ok || text.empty() || last.empty() || to < from) scan_.fail("a range is of two characters");
      const std::array<CharRange, 1> range = {CharRange{from, to}};
      return terminal(pool_.chars(range));
    }
    if (!scan_.take("i")) return terminal(pool_.literal(text));
    std::string escaped;  // as a pattern, every character by its number
    for (size_t pos = 0; pos < text.size();) {
      uint32_t cp = 0;
      pos += utf8_decode(text, pos, cp);
      escaped += fmt::format("\\u{{{:X}}}", cp);
    }
    return terminal(parse_pattern(pool_, escaped, {.ignore_case = true}));
  }

  EbnfId pattern() {
    const std::string place = scan_.place();
    scan_.next();
    std::string text;
    for (char c = scan_.peek(); c != '/'; c = scan_.peek()) {
      if (!scan_.more() || c == '\n') scan_.fail("a regular expression does not end");
      if (c == '\\') {
        scan_.next();
        if (scan_.peek() == '/') {
          text += '/';
        } else {
          text += '\\';
          if (!scan_.more()) scan_.fail("a regular expression does not end");
          text += scan_.peek();
        }
        scan_.next();
        continue;
      }
      text += scan_.next();
    }
    scan_.next();
    PatternOptions options;
    for (const char flag : scan_.take_while(is_lower)) {
      if (flag == 'i') {
        options.ignore_case = true;
      } else if (flag == 's') {
        options.dot_all = true;
      } else if (flag != 'u') {
        scan_.fail("the flag {} is not supported", flag);
      }
    }
    try {
      return terminal(parse_pattern(pool_, text, options));
    } catch (const LimitError&) {
      throw;
    } catch (const GrammarError& error) {
      throw GrammarError(place, "{}", error.what());
    }
  }

  EbnfId special_token() {
    const std::string place = scan_.place();
    const size_t begin = scan_.position();
    scan_.take_while([](char c) { return c != '>' && c != '\n' && c != ' '; });
    if (!scan_.take(">")) scan_.fail("> is expected");
    const std::string_view name = scan_.text(begin, scan_.position());
    if (in_terminal_) throw GrammarError(place, "[grammar] a special token within a terminal");
    if (builder_.spells()) throw GrammarError(place, "[grammar] a special token cannot stand in a tool's text");
    const std::optional<int32_t> token = vocabulary_.special_token(name);
    if (!token) throw GrammarError(place, "[grammar] the model has no special token {}", name);
    return target().symbol(builder_.special_token(vocabulary_, *token, place));
  }

  TextScan scan_;
  const Vocabulary& vocabulary_;
  GrammarBuilder& builder_;
  Regexes& pool_;
  Ebnf ebnf_;
  Ebnf terminals_{builder_}, unused_{builder_};
  std::vector<EbnfId> ignore_parts_;
  Expr ignored_ = kNothing;
  const size_t max_depth_;
  size_t depth_ = 0;
  bool nested_ = false;          // within parentheses: lines may end
  bool in_terminal_ = false;     // a terminal is read
  bool terminals_only_ = false;  // the first time
};

}  // namespace

std::shared_ptr<const Grammar> lark_grammar(std::string_view text, const Vocabulary& vocabulary, const Limits& limits) {
  GrammarBuilder builder(limits);
  return builder.build(lark_symbol(builder, text, vocabulary));
}

Symbol lark_symbol(GrammarBuilder& builder, std::string_view text, const Vocabulary& vocabulary) {
  return LarkReader(text, vocabulary, builder).read();
}

}  // namespace ingot::grammar
