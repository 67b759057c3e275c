// Arguments written as key=value or key:value with literals of Python or with marked text, turned into JSON while they
// come: city='Oslo', days=3 → {"city": "Oslo", "days": 3}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/answer/calls/json_stream.h"

namespace ingot {

class LiteralStream {
 public:
  // python: keys and values are separated by '=' at the top, text stands between ' or "; else by ':' everywhere, and
  // text stands between `quote`s. `end` closes the arguments.
  LiteralStream(bool python, char end, std::string_view quote) : python_(python), end_(end), quote_(quote) {}

  // Appends what is settled. kMore, kDone (this byte is `end`) or kBad (it cannot stand here) comes.
  JsonStep feed(char c, std::string& out);
  // What is missing of the JSON, where nothing more comes.
  std::string close();

 private:
  enum class At : unsigned char { kKeyOrEnd, kKey, kSeparator, kValueOrEnd, kString, kWord, kAfter };

  struct Open {
    char end;   // the byte that ends it in the text
    char json;  // and in JSON
  };

  JsonStep key(char c, std::string& out);
  JsonStep value(char c, std::string& out);
  JsonStep text_byte(char c, std::string& out);
  JsonStep escaped_byte(char c, std::string& out);
  JsonStep word_byte(char c, std::string& out);
  JsonStep after(char c, std::string& out);
  JsonStep shut(std::string& out);
  void item(std::string& out);
  bool in_list() const { return !stack_.empty() && stack_.back().json == ']'; }
  char closer() const { return stack_.empty() ? end_ : stack_.back().end; }

  const bool python_;
  const char end_;
  const std::string_view quote_;
  At at_ = At::kKeyOrEnd;
  bool begun_ = false, first_ = true, key_text_ = false, escaped_ = false;
  char text_quote_ = 0;
  std::vector<Open> stack_;
  std::string word_;  // a key, number or word, or the beginning of a mark
};

}  // namespace ingot
