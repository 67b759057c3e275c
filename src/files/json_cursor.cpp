#include "files/json_cursor.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "files/json.h"

namespace ingot {

namespace {

// The first byte of eight that ends a run of plain characters in a string: a quote, a backslash, a control character.
// 8 where none does. A byte that borrows from a lower one is found wrongly, but never as the first.
size_t first_stop(const char* p) {
  if constexpr (std::endian::native != std::endian::little) {
    for (size_t i = 0; i < 8; i++) {
      if (p[i] == '"' || p[i] == '\\' || static_cast<unsigned char>(p[i]) < 0x20) return i;
    }
    return 8;
  }
  constexpr uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u, kSpaces = 0x2020202020202020u;
  constexpr uint64_t kQuotes = 0x2222222222222222u, kBackslashes = 0x5C5C5C5C5C5C5C5Cu;
  uint64_t word = 0;
  std::memcpy(&word, p, 8);
  const auto zero = [](uint64_t x) { return (x - kOnes) & ~x & kHigh; };
  const uint64_t stops = zero(word ^ kQuotes) | zero(word ^ kBackslashes) | ((word - kSpaces) & ~word & kHigh);
  return static_cast<size_t>(std::countr_zero(stops)) / 8;
}

std::optional<char> simple_escape(char c) {
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  const size_t i = kFrom.find(c);
  return i == kFrom.npos ? std::nullopt : std::optional<char>(kTo[i]);
}

// `quoted`: a string with its quotes, whose end was found.
std::string unescape(std::string_view quoted) {
  std::string out;
  for (size_t i = 1; i + 1 < quoted.size(); i++) {
    if (quoted[i] != '\\') {
      out.push_back(quoted[i]);
      continue;
    }
    const std::optional<char> c = simple_escape(quoted[++i]);
    if (!c) return std::string(as_string(parse_json(quoted, "a string"), "a string"));
    out.push_back(*c);
  }
  return out;
}

}  // namespace

void JsonCursor::skip_space() {
  while (pos_ < text_.size() &&
         (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\r' || text_[pos_] == '\t')) {
    pos_++;
  }
}

bool JsonCursor::next_is(char c) {
  skip_space();
  return pos_ < text_.size() && text_[pos_] == c;
}

bool JsonCursor::take(char c) {
  if (!next_is(c)) return false;
  pos_++;
  return true;
}

bool JsonCursor::skip_string(bool& escapes) {
  escapes = false;
  for (;;) {
    size_t stop = 8;
    for (; pos_ + 8 <= text_.size() && (stop = first_stop(text_.data() + pos_)) == 8;) pos_ += 8;
    if (stop < 8) pos_ += stop;
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\\' &&
           static_cast<unsigned char>(text_[pos_]) >= 0x20) {
      pos_++;
    }
    if (pos_ >= text_.size() || static_cast<unsigned char>(text_[pos_]) < 0x20) return false;
    if (text_[pos_] == '"') {
      pos_++;
      return true;
    }
    escapes = true;
    pos_ += 2;
  }
}

bool JsonCursor::string(std::string_view& out, std::deque<std::string>& memory) {
  if (!take('"')) return false;
  const size_t begin = pos_;
  bool escapes = false;
  if (!skip_string(escapes)) return false;
  out = text_.substr(begin, pos_ - 1 - begin);
  if (escapes) out = memory.emplace_back(unescape(text_.substr(begin - 1, pos_ - begin + 1)));
  return true;
}

bool JsonCursor::integer(int64_t& out) {
  skip_space();
  const size_t begin = pos_;
  while (pos_ < text_.size() && pos_ - begin <= 18 && text_[pos_] >= '0' && text_[pos_] <= '9') pos_++;
  const size_t digits = pos_ - begin;
  if (digits == 0 || digits > 18 || (digits > 1 && text_[begin] == '0')) return false;
  std::from_chars(text_.data() + begin, text_.data() + pos_, out);
  return next_is(',') || next_is('}') || next_is(']');  // no fraction, no exponent
}

bool JsonCursor::skip_value() {
  skip_space();
  size_t depth = 0;
  const size_t begin = pos_;
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    bool escapes = false;
    if (c == '"') {
      pos_++;
      if (!skip_string(escapes)) return false;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    depth += c == '{' || c == '[' ? 1 : 0;
    depth -= c == '}' || c == ']' ? 1 : 0;
    pos_++;
  }
  return depth == 0 && pos_ > begin;
}

}  // namespace ingot
