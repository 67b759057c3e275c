// Reading a grammar's text character by character, with places for errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "grammar/limits.h"

namespace ingot::grammar {

class TextScan {
 public:
  explicit TextScan(std::string_view text) : text_(text) {
    for (size_t i = 0; i < text.size(); i++) {
      if (text[i] == '\n') lines_.push_back(i + 1);
    }
    if (!utf8_valid(text)) throw GrammarError(place(utf8_valid_length(text)), "[grammar] the text is not UTF-8");
  }

  bool more() const { return pos_ < text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool at(std::string_view what) const { return text_.substr(pos_).starts_with(what); }
  bool take(std::string_view what) {
    if (!at(what)) return false;
    pos_ += what.size();
    return true;
  }
  char next() { return text_[pos_++]; }
  // One character. REQUIRES: more().
  uint32_t next_char() {
    uint32_t cp = 0;
    pos_ += utf8_decode(text_, pos_, cp);
    return cp;
  }
  template <class Keep>
  std::string_view take_while(Keep keep) {
    const size_t begin = pos_;
    while (more() && keep(text_[pos_])) pos_++;
    return text_.substr(begin, pos_ - begin);
  }
  size_t position() const { return pos_; }
  void go_to(size_t position) { pos_ = position; }
  std::string_view text(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }

  // "line 3, column 7". Every name that is met has one: none may take a look at all of the text.
  std::string place() const { return place(pos_); }
  std::string place(size_t position) const {
    const auto next = std::upper_bound(lines_.begin(), lines_.end(), std::min(position, text_.size()));
    const size_t begin = next == lines_.begin() ? 0 : *std::prev(next);
    return fmt::format("line {}, column {}", next - lines_.begin() + 1, std::min(position, text_.size()) - begin + 1);
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw GrammarError(place(), "[grammar] {}", fmt::format(format, std::forward<Args>(args)...));
  }

  // Exactly `digits` hexadecimal digits.
  uint32_t hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++) {
      const char c = peek(), lower = static_cast<char>(c | 32);
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
      } else {
        fail("{} hexadecimal digits are expected", digits);
      }
      pos_++;
    }
    return value;
  }
  // Digits; nullopt where there are none. Throws above `max`.
  std::optional<uint32_t> number(uint32_t max) {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<uint64_t>(next() - '0');
      if (value > max) fail("a repetition of more than {}", max);
    }
    return static_cast<uint32_t>(value);
  }

 private:
  std::string_view text_;
  std::vector<size_t> lines_;  // where each but the first begins
  size_t pos_ = 0;
};

}  // namespace ingot::grammar
