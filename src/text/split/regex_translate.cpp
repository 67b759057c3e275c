// Regular expressions of tokenizers, in the syntax of Oniguruma, as PCRE2 understands them.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/split/matcher.h"

namespace ingot {

namespace {

// What stands between the brackets of a class. PCRE2 knows other spaces (U+180E) and other word characters: Oniguruma
// counts marks and circled letters but no joiners, and outside a class the numbers of Latin-1 too.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

constexpr std::string_view kWordNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    if (!utf8_valid(in_)) fail("is not UTF-8");
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      switch (c) {
        case '\\':
          begin_atom();
          escape();
          break;
        case '[':
          begin_atom();
          char_class();
          break;
        case '(':
          open_group();
          break;
        case ')':
          if (groups_.empty()) fail("has an unmatched )");
          atom_ = groups_.back();
          groups_.pop_back();
          take(1);
          break;
        case '?':
        case '*':
        case '+':
          take(1);
          if (pos_ < in_.size() && (in_[pos_] == '?' || in_[pos_] == '+')) take(1);
          break;
        case '{':
          interval();
          break;
        default:
          begin_atom();
          take(char_length(c));
      }
    }
    if (!groups_.empty()) fail("has an unmatched (");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("[tokenizer] the pattern {} {}", utf8_printable(in_, 400), what);
  }
  void begin_atom() { atom_ = out_.size(); }
  void take(size_t bytes) {
    out_.append(in_.substr(pos_, bytes));
    pos_ += bytes;
  }
  char peek(size_t ahead) const { return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0'; }

  // {n}, {n,}, {n,m}, {,m}; else a plain brace. Behind it + repeats the whole, and does not forbid to give back.
  void interval() {
    const size_t close = in_.find('}', pos_);
    const std::string_view inside = close == in_.npos ? "" : in_.substr(pos_ + 1, close - pos_ - 1);
    const bool digits = inside.find_first_not_of("0123456789,") == inside.npos && inside != "," && !inside.empty() &&
                        inside.find(',') == inside.rfind(',');
    if (!digits) {
      begin_atom();
      out_.append("\\{");
      pos_++;
      return;
    }
    out_.append(inside.front() == ',' ? "{0" : "{").append(inside).push_back('}');
    pos_ = close + 1;
    if (peek(0) == '?' && inside.find(',') == inside.npos) fail("has {n}?, which is not supported");
    if (peek(0) == '?') take(1);
    if (peek(0) == '+') {
      out_.insert(atom_, "(?:");
      out_.push_back(')');
      take(1);
    }
  }

  void open_group() {
    groups_.push_back(out_.size());
    if (peek(1) == '*') fail("has (*, which is not supported");
    if (peek(1) != '?') {
      take(1);
      return;
    }
    const char kind = peek(2);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      take(3);
    } else if (kind == '<') {
      take(peek(3) == '=' || peek(3) == '!' ? 4 : 3);
    } else if (kind == '#') {
      const size_t close = in_.find(')', pos_);
      if (close == in_.npos) fail("has a comment without end");
      pos_ = close + 1;
      groups_.pop_back();
    } else {
      options();
    }
  }

  // (?i), (?i:…), (?mi-x:…). Here m lets . match a newline, which PCRE2 calls s.
  void options() {
    const size_t begin = pos_;
    out_.append("(?");
    for (pos_ += 2; pos_ < in_.size() && in_[pos_] != ':' && in_[pos_] != ')'; pos_++) {
      const char c = in_[pos_];
      if (c != 'i' && c != 'm' && c != 'x' && c != '-') fail("has a group that is not supported");
      if (c == 'x') fail("has the option x, which is not supported");
      out_.push_back(c == 'm' ? 's' : c);
    }
    if (pos_ >= in_.size()) fail("has an unmatched (");
    if (in_[pos_] == ')') {
      // Elsewhere it would open a group up to the end of the one around it.
      if (begin != 0) fail("has options behind its beginning, which is not supported");
      groups_.pop_back();
    }
    take(1);
  }

  // \xHH, \x{H…}, \uHHHH
  void hex() {
    const char kind = peek(1);
    if (kind == 'x' && peek(2) == '{') {
      const size_t close = in_.find('}', pos_);
      if (close == in_.npos) fail("has an unmatched {");
      take(close + 1 - pos_);
      return;
    }
    const size_t most = kind == 'x' ? 2 : 4;
    size_t digits = 0;
    while (digits < most &&
           std::string_view("0123456789abcdefABCDEF").find(peek(2 + digits)) != std::string_view::npos &&
           peek(2 + digits) != '\0') {
      digits++;
    }
    if (digits == 0 || (kind == 'u' && digits < 4)) fail("has a broken hexadecimal character");
    out_.append("\\x{").append(in_.substr(pos_ + 2, digits)).push_back('}');
    pos_ += 2 + digits;
  }

  // \p{…}: a category of one or two letters, a binary property, or a script, which PCRE2 would take with its
  // extensions.
  void property() {
    const size_t close = in_.find('}', pos_);
    if (peek(2) != '{' || close == in_.npos) fail("has \\p without {");
    std::string_view name = in_.substr(pos_ + 3, close - pos_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    bool plain = name.size() <= 2;
    for (const std::string_view known : {"Any", "Alphabetic", "Uppercase", "Lowercase", "White_Space", "Emoji",
                                         "Extended_Pictographic", "Ideographic", "Emoji_Presentation"}) {
      plain = plain || name == known;
    }
    out_.append(in_.substr(pos_, 2))
        .append(negated ? "{^" : "{")
        .append(plain ? "" : "sc:")
        .append(name)
        .push_back('}');
    pos_ = close + 1;
  }

  // Escapes that mean the same inside a class and outside. False: not one of them.
  bool common_escape() {
    const char c = peek(1);
    const auto put = [&](std::string_view text) {
      out_.append(text);
      pos_ += 2;
      return true;
    };
    switch (c) {
      case 'd':
        return put("\\p{Nd}");
      case 'D':
        return put("\\P{Nd}");
      case 'v':
        return put("\\x{b}");
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        take(2);
        return true;
      case 'x':
      case 'u':
        hex();
        return true;
      case 'p':
      case 'P':
        property();
        return true;
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '\0') return false;
    out_.push_back('\\');
    pos_++;
    const auto first = static_cast<unsigned char>(c);
    if (first >= 0x80) out_.pop_back();
    take(char_length(c));
    return true;
  }

  void escape() {
    const auto put = [&](std::string_view before, std::string_view text, std::string_view behind) {
      out_.append(before).append(text).append(behind);
      pos_ += 2;
    };
    const std::string words = std::string(kWords) + std::string(kWordNumbers);
    const std::string word = "[" + words + "]";
    switch (peek(1)) {
      case 's':
        return put("[", kSpaces, "]");
      case 'S':
        return put("[^", kSpaces, "]");
      case 'w':
        return put("[", words, "]");
      case 'W':
        return put("[^", words, "]");
      case 'h':
        return put("[", "0-9A-Fa-f", "]");
      case 'H':
        return put("[^", "0-9A-Fa-f", "]");
      case 'b':
        return put("", "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))", "");
      case 'B':
        return put("", "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))", "");
      case 'A':
      case 'z':
      case 'Z':
        return take(2);
      default:
        break;
    }
    if (peek(1) >= '1' && peek(1) <= '9') return take(2);
    if (!common_escape()) fail("has an escape that is not supported");
  }

  void class_escape() {
    switch (peek(1)) {
      case 's':
        out_.append(kSpaces);
        break;
      case 'S':
        out_.append("\\S\\x{180e}");
        break;
      case 'w':
        out_.append(kWords);
        break;
      case 'h':
        out_.append("0-9A-Fa-f");
        break;
      default:
        if (!common_escape()) fail("has an escape in a class that is not supported");
        return;
    }
    pos_ += 2;
  }

  // Classes inside classes are taken in where they only add.
  void char_class() {
    take(1);
    if (peek(0) == '^') take(1);
    size_t depth = 1;
    bool first = true;
    while (depth > 0) {
      if (pos_ >= in_.size()) fail("has an unmatched [");
      const char c = in_[pos_];
      if (c == ']' && !first) {
        depth--;
        if (depth == 0) return take(1);
        pos_++;
      } else if (c == '[') {
        if (peek(1) == '^' || peek(1) == ':') fail("has a class inside a class that is not supported");
        depth++;
        pos_++;
      } else if (c == '&' && peek(1) == '&') {
        fail("has &&, which is not supported");
      } else if (c == '\\') {
        class_escape();
      } else {
        if (c == ']') out_.push_back('\\');
        take(char_length(c));
      }
      first = c == '[';
    }
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last thing that can be repeated begins in out_
  std::vector<size_t> groups_;  // where the open ones begin in out_
};

}  // namespace

std::string regex_to_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace ingot
