#include "grammar/regex/pattern.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/regex/pattern_chars.h"

namespace ingot::grammar {
namespace {

// What a part of a pattern matches, by where it must stand: [1][·] at the text's begin, [·][1] at its end.
struct Part {
  Expr at[2][2] = {{kNothing, kNothing}, {kNothing, kNothing}};

  bool is_free() const { return at[0][1] == kNothing && at[1][0] == kNothing && at[1][1] == kNothing; }
};

Part free_part(Expr expr) {
  Part part;
  part.at[0][0] = expr;
  return part;
}

constexpr uint32_t kNoChar = 0xFFFFFFFF;

class PatternParser {
 public:
  PatternParser(Regexes& pool, std::string_view pattern, const PatternOptions& options)
      : pool_(pool), text_(pattern), options_(options) {
    groups_.push_back({.ignore_case = options.ignore_case, .dot_all = options.dot_all});
  }

  Expr parse();

 private:
  struct Group {
    bool ignore_case = false, dot_all = false;
    size_t begin = 0;
    std::vector<Part> sequence = {};  // of the alternative that is being read
    std::vector<Part> alternatives = {};
  };

  template <class... Args>
  [[noreturn]] void fail(size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    throw GrammarError(fmt::format("byte {}", at), "[pattern] {} in '{}'",
                       fmt::format(format, std::forward<Args>(args)...), utf8_printable(text_, 80));
  }
  bool at_end() const { return pos_ >= text_.size(); }
  bool take(std::string_view expected) {
    if (!text_.substr(pos_).starts_with(expected)) return false;
    pos_ += expected.size();
    return true;
  }
  uint32_t take_char() {
    uint32_t cp = 0;
    const size_t length = utf8_decode(text_, pos_, cp);
    if (length == 0) fail(pos_, "invalid UTF-8");
    pos_ += length;
    return cp;
  }

  void open_group();
  void take_flags(Group& group);
  Part close_group(Group group);
  void take_atom();
  void take_escape();
  void quantify();
  bool take_bounds(uint32_t& min, uint32_t& max);
  bool take_number(uint32_t& value);
  std::vector<CharRange> take_class();
  std::vector<CharRange> take_class_part(uint32_t& single);
  bool take_class_escape(std::vector<CharRange>& ranges);
  uint32_t take_char_escape(bool in_class);
  uint32_t take_hex(size_t digits);
  uint32_t take_unicode_escape();

  Part joined(const Part& a, const Part& b);
  Part any_of(std::span<const Part> parts);
  void push(Part part) { groups_.back().sequence.push_back(part); }
  void push_chars(std::vector<CharRange> ranges) {
    if (groups_.back().ignore_case) ranges = with_both_cases(std::move(ranges));
    push(free_part(pool_.chars(ranges)));
  }

  Regexes& pool_;
  const std::string_view text_;
  const PatternOptions options_;
  size_t pos_ = 0;
  std::vector<Group> groups_;
};

// An anchor in `b` wants nothing before it, one in `a` nothing after it.
Part PatternParser::joined(const Part& a, const Part& b) {
  Part out;
  std::vector<Expr> parts[2][2];
  for (int i = 0; i < 16; i++) {
    const int begin_a = i & 1, end_a = i >> 1 & 1, begin_b = i >> 2 & 1, end_b = i >> 3 & 1;
    Expr left = a.at[begin_a][end_a], right = b.at[begin_b][end_b];
    if (left == kNothing || right == kNothing) continue;
    if (begin_b == 1) left = pool_.nullable(left) ? kEmpty : kNothing;
    if (end_a == 1) right = pool_.nullable(right) ? kEmpty : kNothing;
    parts[begin_a | begin_b][end_a | end_b].push_back(pool_.concat(left, right));
  }
  for (int i = 0; i < 4; i++) out.at[i & 1][i >> 1] = pool_.any_of(parts[i & 1][i >> 1]);
  return out;
}

Part PatternParser::any_of(std::span<const Part> alternatives) {
  Part out;
  for (int i = 0; i < 4; i++) {
    std::vector<Expr> parts;
    for (const Part& part : alternatives) parts.push_back(part.at[i & 1][i >> 1]);
    out.at[i & 1][i >> 1] = pool_.any_of(parts);
  }
  return out;
}

Part PatternParser::close_group(Group group) {
  Part last = free_part(kEmpty);
  for (size_t i = group.sequence.size(); i-- > 0;) last = joined(group.sequence[i], last);
  group.alternatives.push_back(last);
  return group.alternatives.size() == 1 ? last : any_of(group.alternatives);
}

// (?i) and (?i:, of which i and s are taken; "(?" has been read.
void PatternParser::take_flags(Group& group) {
  bool on = true;
  for (;;) {
    if (at_end()) fail(group.begin, "an unclosed group");
    const char c = text_[pos_++];
    if (c == '-') {
      on = false;
    } else if (c == 'i') {
      group.ignore_case = on;
    } else if (c == 's') {
      group.dot_all = on;
    } else if (c == 'u') {  // always so
    } else if (c == ':' || c == ')') {
      pos_--;
      return;
    } else {
      fail(group.begin, "the unknown group '(?{}'", c);
    }
  }
}

void PatternParser::open_group() {
  const size_t begin = pos_ - 1;
  if (groups_.size() > options_.max_depth) {
    throw LimitError("[pattern] groups are nested deeper than {}", options_.max_depth);
  }
  Group group = {.ignore_case = groups_.back().ignore_case, .dot_all = groups_.back().dot_all, .begin = begin};
  if (take("?")) {
    for (const std::string_view look : {"=", "!", "<=", "<!"}) {
      if (text_.substr(pos_).starts_with(look)) fail(begin, "look-around '(?{}', which is not taken,", look);
    }
    take("P");  // (?P<name>…), as other dialects write it
    if (take("<")) {
      const size_t end = text_.find('>', pos_);
      if (end == std::string_view::npos || end == pos_) fail(begin, "a group's name without an end");
      pos_ = end + 1;
    } else {
      take_flags(group);
      if (take(")")) {  // for the rest of the group around it
        groups_.back().ignore_case = group.ignore_case;
        groups_.back().dot_all = group.dot_all;
        return;
      }
      take(":");
    }
  }
  groups_.push_back(std::move(group));
}

bool PatternParser::take_number(uint32_t& value) {
  const size_t begin = pos_;
  uint64_t number = 0;
  for (; !at_end() && text_[pos_] >= '0' && text_[pos_] <= '9'; pos_++) {
    number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(text_[pos_] - '0'), kUnbounded - 1);
  }
  value = static_cast<uint32_t>(number);
  return pos_ > begin;
}

// {n}, {n,} or {n,m}; anything else behind a brace is the brace itself, as browsers read it.
bool PatternParser::take_bounds(uint32_t& min, uint32_t& max) {
  const size_t begin = pos_;
  if (take("{") && take_number(min)) {
    max = min;
    if (take(",") && !take_number(max)) max = kUnbounded;
    if (take("}")) {
      if (min > max) fail(begin, "a repeat of at least {} and at most {}", min, max);
      return true;
    }
  }
  pos_ = begin;
  return false;
}

void PatternParser::quantify() {
  uint32_t min = 0, max = kUnbounded;
  const size_t begin = pos_;
  if (take("*")) {
  } else if (take("+")) {
    min = 1;
  } else if (take("?")) {
    max = 1;
  } else if (!take_bounds(min, max)) {
    return;
  }
  take("?");  // lazy: the same texts
  Part& part = groups_.back().sequence.back();
  if (part.is_free()) {
    part.at[0][0] = pool_.repeat(part.at[0][0], min, max);
  } else if (max == 1) {
    if (min == 0) part.at[0][0] = pool_.optional(part.at[0][0]);
  } else if (max == 0) {
    part = free_part(kEmpty);
  } else {
    fail(begin, "an anchor that is repeated");
  }
  uint32_t low = 0, high = 0;
  if (!at_end() && (text_[pos_] == '*' || text_[pos_] == '+' || text_[pos_] == '?' || take_bounds(low, high))) {
    fail(pos_, "a repeat of a repeat");
  }
}

uint32_t PatternParser::take_hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; i++) {
    const char c = at_end() ? ' ' : text_[pos_++];
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                           : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A' + 10)
                                                  : 16;
    if (digit == 16) fail(pos_, "a hexadecimal escape that is cut short");
    value = value * 16 + digit;
  }
  return value;
}

uint32_t PatternParser::take_unicode_escape() {
  if (take("{")) {
    const size_t end = text_.find('}', pos_);
    if (end == std::string_view::npos || end == pos_ || end - pos_ > 8) fail(pos_, "an escape \\u{{…}} without an end");
    const uint32_t cp = take_hex(end - pos_);
    pos_ = end + 1;
    if (cp > 0x10FFFF) fail(pos_, "a character above U+10FFFF");
    return cp;
  }
  const uint32_t first = take_hex(4);
  const size_t begin = pos_;
  if (first >= 0xD800 && first < 0xDC00 && take("\\u")) {
    const uint32_t second = text_.substr(pos_).starts_with("{") ? 0 : take_hex(4);
    if (second >= 0xDC00 && second < 0xE000) return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    pos_ = begin;
  }
  return first;
}

// What follows a backslash where it is one character.
uint32_t PatternParser::take_char_escape(bool in_class) {
  const size_t begin = pos_ - 1;
  if (at_end()) fail(begin, "a backslash at the end");
  const uint32_t c = take_char();
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case 'x':
      return take_hex(2);
    case 'u':
      return take_unicode_escape();
    case 'c':
      if (at_end() || ((text_[pos_] | 0x20) < 'a' || (text_[pos_] | 0x20) > 'z'))
        fail(begin, "an unknown escape '\\c'");
      return static_cast<uint32_t>(text_[pos_++]) & 31;
    case 'b':
      if (in_class) return '\b';
      fail(begin, "the word border '\\b', which is not taken,");
    case 'B':
      fail(begin, "the word border '\\B', which is not taken,");
    case 'k':
      fail(begin, "the back-reference '\\k', which is not taken,");
    case '0':
      if (at_end() || text_[pos_] < '0' || text_[pos_] > '9') return 0;
      fail(begin, "an octal escape");
    default:
      if (c >= '1' && c <= '9') fail(begin, "the back-reference '\\{}', which is not taken,", c - '0');
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        fail(begin, "the unknown escape '\\{}'", static_cast<char>(c));
      return c;
  }
}

// \d and its like, at text_[pos_] behind the backslash.
bool PatternParser::take_class_escape(std::vector<CharRange>& ranges) {
  if (at_end()) return false;
  const char c = text_[pos_];
  switch (c) {
    case 'd':
    case 'D':
      ranges = digit_chars();
      break;
    case 'w':
    case 'W':
      ranges = word_chars();
      break;
    case 's':
    case 'S':
      ranges = space_chars();
      break;
    case 'p':
    case 'P': {
      const size_t end = text_.find('}', pos_);
      if (!text_.substr(pos_ + 1).starts_with("{") || end == std::string_view::npos) fail(pos_, "\\p without a name");
      const std::string_view name = text_.substr(pos_ + 2, end - pos_ - 2);
      const auto found = property_chars(name);
      if (!found) fail(pos_, "the property '\\p{{{}}}', which is not taken,", utf8_printable(name, 40));
      ranges = *found;
      pos_ = end;
      break;
    }
    default:
      return false;
  }
  pos_++;
  if (c < 'a') ranges = other_chars(std::move(ranges));
  return true;
}

std::vector<CharRange> PatternParser::take_class_part(uint32_t& single) {
  std::vector<CharRange> ranges;
  single = kNoChar;
  if (take("\\")) {
    if (take_class_escape(ranges)) return ranges;
    single = take_char_escape(true);
  } else {
    single = take_char();
  }
  return {{single, single}};
}

std::vector<CharRange> PatternParser::take_class() {
  const size_t begin = pos_ - 1;
  const bool negated = take("^");
  std::vector<CharRange> all;
  while (!take("]")) {
    if (at_end()) fail(begin, "a class without an end");
    uint32_t first = 0, last = 0;
    std::vector<CharRange> ranges = take_class_part(first);
    const bool is_range = first != kNoChar && pos_ + 1 < text_.size() && text_[pos_] == '-' && text_[pos_ + 1] != ']';
    if (is_range) {
      pos_++;
      const std::vector<CharRange> right = take_class_part(last);
      if (last == kNoChar) {  // [a-\d]: three members
        ranges.push_back({'-', '-'});
        ranges.insert(ranges.end(), right.begin(), right.end());
      } else {
        if (last < first) fail(begin, "a class with a range from U+{:04X} down to U+{:04X}", first, last);
        ranges = {{first, last}};
      }
    }
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  if (groups_.back().ignore_case) all = with_both_cases(std::move(all));
  return negated ? other_chars(std::move(all)) : all;
}

void PatternParser::take_escape() {
  std::vector<CharRange> ranges;
  if (take_class_escape(ranges)) {
    push_chars(std::move(ranges));
    return;
  }
  const uint32_t c = take_char_escape(false);
  push_chars({{c, c}});
}

void PatternParser::take_atom() {
  const size_t begin = pos_;
  const uint32_t c = take_char();
  switch (c) {
    case '\\':
      take_escape();
      break;
    case '[':
      push_chars(take_class());
      break;
    case '.':
      push_chars(groups_.back().dot_all ? std::vector<CharRange>{{0, 0x10FFFF}} : other_chars(line_end_chars()));
      break;
    case '^':
    case '$': {
      Part anchor;
      anchor.at[c == '^' ? 1 : 0][c == '$' ? 1 : 0] = kEmpty;
      push(anchor);
      break;
    }
    case '*':
    case '+':
    case '?':
      fail(begin, "'{}' with nothing to repeat", static_cast<char>(c));
    default:
      push_chars({{c, c}});
  }
  quantify();
}

Expr PatternParser::parse() {
  while (!at_end()) {
    if (take("(")) {
      open_group();
    } else if (take("|")) {
      Group& group = groups_.back();
      Group done = {.sequence = std::move(group.sequence)};
      group.sequence.clear();
      group.alternatives.push_back(close_group(std::move(done)));
    } else if (take(")")) {
      if (groups_.size() == 1) fail(pos_ - 1, "')' without '('");
      Group done = std::move(groups_.back());
      groups_.pop_back();
      push(close_group(std::move(done)));
      quantify();
    } else {
      take_atom();
    }
  }
  if (groups_.size() > 1) fail(groups_.back().begin, "an unclosed group");
  const Part whole = close_group(std::move(groups_.back()));
  if (!options_.search) return pool_.any_of({whole.at[0][0], whole.at[0][1], whole.at[1][0], whole.at[1][1]});
  const Expr any = pool_.star(pool_.any_char());
  return pool_.any_of({pool_.concat({any, whole.at[0][0], any}), pool_.concat(any, whole.at[0][1]),
                       pool_.concat(whole.at[1][0], any), whole.at[1][1]});
}

}  // namespace

Expr parse_pattern(Regexes& pool, std::string_view pattern, const PatternOptions& options) {
  return PatternParser(pool, pattern, options).parse();
}

}  // namespace ingot::grammar
