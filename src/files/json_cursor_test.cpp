#include "files/json_cursor.h"

#include <gtest/gtest.h>

#include "files/json.h"

namespace ingot {
namespace {

// What the cursor makes of one string, or nothing.
std::optional<std::string> read_string(const std::string& text) {
  std::deque<std::string> memory;
  std::string_view out;
  JsonCursor cursor(text);
  try {
    if (!cursor.string(out, memory) || cursor.pos() != text.size()) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::string(out);
}

// Whatever it accepts, parse_json accepts and reads alike; and these are read.
TEST(JsonCursor, StringsAreThoseOfTheParser) {
  std::vector<std::string> insides = {"",           "a",      "abcdefgh", "abcdefghi", "Ġthe",         "\\n",
                                      "x\\\"y",     "\\\\",   "\\u00e9",  "\\/",       "\\b\\f\\r\\t", "\\ud83d\\ude00",
                                      "1234567\\n", "中文字", "\x7f"};
  for (const std::string& inside : insides) {
    const std::string text = '"' + inside + '"';
    EXPECT_EQ(read_string(text), std::string(as_string(parse_json(text, "test"), "test"))) << text;
  }
  for (const std::string inside : {"\\", "\\x", "\\u12", "\\ud83d", "a\nb", "\x01", "12345678\t", "abc\\"}) {
    EXPECT_EQ(read_string('"' + inside + '"'), std::nullopt) << inside;
  }
  for (const std::string text : {"", "\"", "\"abc", "abc\"", "\"12345678"}) EXPECT_EQ(read_string(text), std::nullopt);
}

TEST(JsonCursor, StopsAtEveryPlace) {
  for (size_t n = 0; n < 40; n++) {
    const std::string plain(n, 'x');
    EXPECT_EQ(read_string('"' + plain + '"'), plain);
    EXPECT_EQ(read_string('"' + plain + "\\\"\""), plain + '"');
    EXPECT_EQ(read_string('"' + plain + '\x1f' + '"'), std::nullopt);
  }
}

TEST(JsonCursor, Integers) {
  const auto read = [](std::string_view text) -> std::optional<int64_t> {
    JsonCursor cursor(text);
    int64_t value = 0;
    return cursor.integer(value) ? std::optional<int64_t>(value) : std::nullopt;
  };
  EXPECT_EQ(read("0,"), 0);
  EXPECT_EQ(read(" 128000 }"), 128000);
  EXPECT_EQ(read("999999999999999999]"), 999999999999999999);
  for (const char* text : {"", "-1,", "1", "01,", "1.0,", "1e3,", "9999999999999999999,", "\"1\",", "null,"}) {
    EXPECT_EQ(read(text), std::nullopt) << text;
  }
}

TEST(JsonCursor, SkipsValues) {
  for (const std::string value : {"1", "\"a,}\\\"]\"", "[1, [2], {\"a\": \"]\"}]", "{}", "null", "-1.5e3"}) {
    for (const std::string behind : {",", "}", "]"}) {
      const std::string text = " " + value + behind;
      JsonCursor cursor(text);
      EXPECT_TRUE(cursor.skip_value()) << text;
      EXPECT_EQ(cursor.pos(), value.size() + 1) << text;
    }
  }
  for (const char* text : {"", "  ", "[1", "{\"a\": 1", "\"abc", ",", "]"}) {
    JsonCursor cursor(text);
    EXPECT_FALSE(cursor.skip_value()) << text;
  }
}

}  // namespace
}  // namespace ingot
