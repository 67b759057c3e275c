#include "text/jinja/parse/lexer.h"

#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/parse/literal.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

constexpr size_t kMaxSource = size_t{1} << 20;  // published templates have at most 20 KB

// All line ends as "\n", and without the last of them.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

struct Operator {
  std::string_view text;
  Tok type;
};
// Longer ones first.
constexpr Operator kOperators[] = {
    {"//", Tok::kFloorDiv}, {"**", Tok::kPow},   {"==", Tok::kEq},      {"!=", Tok::kNe},      {">=", Tok::kGe},
    {"<=", Tok::kLe},       {"+", Tok::kAdd},    {"-", Tok::kSub},      {"/", Tok::kDiv},      {"*", Tok::kMul},
    {"%", Tok::kMod},       {"~", Tok::kTilde},  {"[", Tok::kLBracket}, {"]", Tok::kRBracket}, {"(", Tok::kLParen},
    {")", Tok::kRParen},    {"{", Tok::kLBrace}, {"}", Tok::kRBrace},   {">", Tok::kGt},       {"<", Tok::kLt},
    {"=", Tok::kAssign},    {".", Tok::kDot},    {":", Tok::kColon},    {"|", Tok::kPipe},     {",", Tok::kComma},
    {";", Tok::kSemicolon},
};

class Lexer {
 public:
  explicit Lexer(std::string source) : s_(std::move(source)) {}

  std::vector<Token> run() {
    while (pos_ < s_.size()) root();
    push(Tok::kEof, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { fail_at(place_, what); }
  bool starts(size_t pos, std::string_view text) const { return s_.compare(pos, text.size(), text) == 0; }
  size_t skip_spaces(size_t pos) const { return skip_space(s_, pos); }

  Token& push(Tok type, std::string_view text) {
    Token token;
    token.type = type;
    token.place = place_;
    token.text = text;
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // Moves on to `end`; what lies between counts for lines and for whether a line starts here.
  void advance(size_t end) {
    for (size_t i = pos_; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(s_[i]);
      if (byte == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if (byte < 0x80 || byte >= 0xc0) {  // no continuation byte
        ++place_.column;
      }
    }
    if (end > pos_) line_starts_ = s_[end - 1] == '\n';
    pos_ = end;
  }

  // The data [pos_, end) before a tag that begins with `sign` ('-', '+' or 0).
  void data(size_t end, char sign, bool is_print) {
    std::string_view text = std::string_view(s_).substr(pos_, end - pos_);
    if (sign == '-') {
      text = text.substr(0, skip_space_back(text, text.size()));
    } else if (sign != '+' && !is_print) {
      size_t newline = text.rfind('\n');
      size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starts_) && start < text.size() && skip_space(text, start) == text.size()) {
        text = text.substr(0, start);
      }
    }
    if (!text.empty()) push(Tok::kData, text);
    advance(end);
  }

  char sign_at(size_t pos) const { return pos < s_.size() && (s_[pos] == '-' || s_[pos] == '+') ? s_[pos] : '\0'; }

  void root() {
    size_t tag = pos_;
    for (;; ++tag) {
      tag = s_.find('{', tag);
      if (tag == std::string::npos) {
        push(Tok::kData, std::string_view(s_).substr(pos_));
        advance(s_.size());
        return;
      }
      if (tag + 1 < s_.size() && (s_[tag + 1] == '%' || s_[tag + 1] == '{' || s_[tag + 1] == '#')) break;
    }
    char type = s_[tag + 1];
    char sign = sign_at(tag + 2);
    size_t inside = tag + 2 + (sign != 0 ? 1 : 0);
    size_t raw = type == '%' ? raw_begin(inside) : 0;
    data(tag, sign, type == '{');
    if (raw != 0) {
      advance(raw);
      raw_body();
    } else if (type == '#') {
      advance(inside);
      comment();
    } else {
      push(type == '{' ? Tok::kPrintBegin : Tok::kTagBegin, s_.substr(tag, inside - tag));
      advance(inside);
      code(type == '{');
    }
  }

  // The end of `raw %}` or `raw -%}` when that stands at `pos`, else 0.
  size_t raw_begin(size_t pos) const {
    pos = skip_spaces(pos);
    if (!starts(pos, "raw")) return 0;
    pos = skip_spaces(pos + 3);
    if (starts(pos, "-%}")) return skip_spaces(pos + 3);
    return starts(pos, "%}") ? pos + 2 : 0;
  }

  void raw_body() {
    if (pos_ >= s_.size()) return;
    for (size_t tag = s_.find("{%", pos_); tag != std::string::npos; tag = s_.find("{%", tag + 1)) {
      char sign = sign_at(tag + 2);
      size_t at = skip_spaces(tag + 2 + (sign != 0 ? 1 : 0));
      if (!starts(at, "endraw")) continue;
      size_t end = tag_end(skip_spaces(at + 6));
      if (end == 0) continue;
      data(tag, sign, false);
      advance(end);
      return;
    }
    fail("Missing end of raw directive");
  }

  // The end of `%}`, `-%}` or `+%}` with the white space that it takes, else 0.
  size_t tag_end(size_t pos) const {
    if (starts(pos, "+%}")) return pos + 3;
    if (starts(pos, "-%}")) return skip_spaces(pos + 3);
    if (!starts(pos, "%}")) return 0;
    return pos + 2 + (pos + 2 < s_.size() && s_[pos + 2] == '\n' ? 1 : 0);
  }

  void comment() {
    if (pos_ >= s_.size()) return;
    size_t end = s_.find("#}", pos_);
    if (end == std::string::npos) fail("Missing end of comment tag");
    char before = end > pos_ ? s_[end - 1] : '\0';
    size_t after = end + 2;
    if (before == '-') {
      after = skip_spaces(after);
    } else if (before != '+' && after < s_.size() && s_[after] == '\n') {
      ++after;
    }
    advance(after);
  }

  // The inside of {{ }} or {% %}.
  void code(bool is_print) {
    brackets_.clear();
    while (pos_ < s_.size()) {
      size_t end = brackets_.empty() ? (is_print ? print_end() : tag_end(pos_)) : 0;
      if (end != 0) {
        push(is_print ? Tok::kPrintEnd : Tok::kTagEnd, is_print ? "}}" : "%}");
        advance(end);
        return;
      }
      size_t space = skip_spaces(pos_);
      if (space != pos_) {
        advance(space);
      } else if (!number() && !name() && !string()) {
        operation();
      }
    }
  }

  size_t print_end() const {
    if (starts(pos_, "-}}")) return skip_spaces(pos_ + 3);
    return starts(pos_, "}}") ? pos_ + 2 : 0;
  }

  bool number() {
    NumberLiteral n = read_number(s_, pos_);
    if (n.size == 0) return false;
    if (n.too_large) fail("an integer beyond 64 bits");
    Token& token = push(n.is_float ? Tok::kFloat : Tok::kInt, s_.substr(pos_, n.size));
    token.integer = n.integer;
    token.real = n.real;
    advance(pos_ + n.size);
    return true;
  }

  bool name() {
    size_t end = pos_;
    while (end < s_.size()) {
      Char c = char_at(s_, end);
      if (!has_property(c.cp, Property::kWord) && !has_property(c.cp, Property::kNumeric)) break;
      end += c.size;
    }
    if (end == pos_) return false;
    Char first = char_at(s_, pos_);
    if (first.cp != '_' && !has_property(first.cp, Property::kAlpha)) fail("Invalid character in identifier");
    push(Tok::kName, s_.substr(pos_, end - pos_));
    advance(end);
    return true;
  }

  bool string() {
    char quote = s_[pos_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = pos_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) fail(fmt::format("unexpected char {}", quote == '"' ? "'\"'" : "\"'\""));
    std::string value;
    std::string_view error = unescape(std::string_view(s_).substr(pos_ + 1, end - pos_ - 1), value);
    if (!error.empty()) fail(error);
    push(Tok::kString, value);
    advance(end + 1);
    return true;
  }

  void operation() {
    for (const Operator& op : kOperators) {
      if (!starts(pos_, op.text)) continue;
      balance(op.text[0], op.text.size());
      push(op.type, op.text);
      advance(pos_ + op.text.size());
      return;
    }
    Char c = char_at(s_, pos_);
    fail(fmt::format("unexpected char '{}'", utf8_printable(std::string_view(s_).substr(pos_, c.size))));
  }

  void balance(char op, size_t size) {
    if (size != 1) return;
    if (op == '{') brackets_ += '}';
    if (op == '(') brackets_ += ')';
    if (op == '[') brackets_ += ']';
    if (op != '}' && op != ')' && op != ']') return;
    if (brackets_.empty()) fail(fmt::format("unexpected '{}'", op));
    if (brackets_.back() != op) fail(fmt::format("unexpected '{}', expected '{}'", op, brackets_.back()));
    brackets_.pop_back();
  }

  std::string s_;
  size_t pos_ = 0;
  Place place_{1, 1};
  bool line_starts_ = true;
  std::string brackets_;  // that wait to be closed
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxSource) {
    throw Error("[template] the source has {} bytes, at most {} allowed", source.size(), kMaxSource);
  }
  return Lexer(normalize(source)).run();
}

}  // namespace ingot::jinja
