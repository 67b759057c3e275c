// A cursor over JSON text that reads values in place, for lists too long for a tree of values. It takes plain JSON
// only: on anything else its functions return false, and the caller reads the text by parse_json, which says what is
// wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace ingot {

class JsonCursor {
 public:
  // REQUIRES: `text` is valid UTF-8 and outlives the cursor and the strings read.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // Past white space: whether `c` is next, and past it where it is.
  bool take(char c);
  bool next_is(char c);

  // A string, as a view of the text, or of `memory` where it has escapes. May throw Error on a wrong escape.
  bool string(std::string_view& out, std::deque<std::string>& memory);
  bool integer(int64_t& out);  // digits alone, up to 18

  // Past one value, whose inside is not checked: brackets are counted and strings skipped.
  bool skip_value();

  size_t pos() const { return pos_; }

 private:
  void skip_space();
  bool skip_string(bool& escapes);  // from behind the first quote to behind the last

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace ingot
