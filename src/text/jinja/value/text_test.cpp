#include "text/jinja/value/text.h"

#include <gtest/gtest.h>

#include <random>

#include "text/jinja/parse/literal.h"
#include "text/jinja/value/unicode.h"

namespace ingot::jinja {
namespace {

// The plain model: one flag for each byte.
struct Model {
  std::string bytes;
  std::vector<bool> flags;
};

void expect_same(const Text& text, const Model& model) {
  ASSERT_EQ(text.bytes(), model.bytes);
  size_t next = 0;
  text.each_run([&](size_t begin, size_t end, bool from_template) {
    EXPECT_EQ(begin, next);
    EXPECT_LT(begin, end);
    for (size_t i = begin; i < end; ++i) {
      EXPECT_EQ(model.flags[i], from_template);
      EXPECT_EQ(text.from_template(i), from_template);
    }
    if (begin > 0) {  // runs are as long as can be
      EXPECT_NE(model.flags[begin - 1], from_template);
    }
    next = end;
  });
  EXPECT_EQ(next, text.size());
}

TEST(JinjaText, KeepsFlagsLikeAPlainModel) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Text text, other;
  Model model, other_model;
  for (int step = 0; step < 5000; ++step) {
    switch (below(4)) {
      case 0: {
        bool flag = below(2) == 0;
        std::string piece(below(4), static_cast<char>('a' + below(26)));
        text.append(piece, flag);
        model.bytes += piece;
        model.flags.insert(model.flags.end(), piece.size(), flag);
        break;
      }
      case 1:
        std::swap(text, other), std::swap(model, other_model);
        break;
      case 2: {
        size_t begin = below(other.size() + 1), end = begin + below(other.size() - begin + 1);
        text.append(other, begin, end);
        model.bytes += other_model.bytes.substr(begin, end - begin);
        model.flags.insert(model.flags.end(), other_model.flags.begin() + static_cast<ptrdiff_t>(begin),
                           other_model.flags.begin() + static_cast<ptrdiff_t>(end));
        break;
      }
      default: {
        size_t begin = below(text.size() + 1), end = begin + below(text.size() - begin + 1);
        text = text.sub(begin, end);
        model = {model.bytes.substr(begin, end - begin),
                 std::vector<bool>(model.flags.begin() + static_cast<ptrdiff_t>(begin),
                                   model.flags.begin() + static_cast<ptrdiff_t>(end))};
      }
    }
    if (text.size() > 200) text = Text(), model = {};
    expect_same(text, model);
  }
}

TEST(JinjaUnicode, ChangesCaseAsPythonDoes) {
  auto to = [](std::string_view s, Case c) {
    std::string out;
    for (size_t i = 0; i < s.size(); i += char_at(s, i).size) append_case(out, s, i, c);
    return out;
  };
  EXPECT_EQ(to("straße ŉ ﬃ ÿ ǆ", Case::kUpper), "STRASSE ʼN FFI Ÿ Ǆ");
  EXPECT_EQ(to("ǆﬁ", Case::kTitle), "ǅFi");
  EXPECT_EQ(to("ΑΣ ΣΑΣ. Σ İ ẞ Ⅷ Ꮿ", Case::kLower), "ας σας. σ i̇ ß ⅷ ꮿ");
  EXPECT_EQ(to("a\xff\xc3", Case::kUpper), "A\xff\xc3");
}

TEST(JinjaUnicode, WalksBytesThatAreNoUtf8) {
  std::string_view s = "a\xc3\xa9\xff\xe4\xb8\xf0\x9f\x91\x8b\x80";
  size_t forward = 0;
  for (size_t i = 0; i < s.size(); i += char_at(s, i).size) ++forward;
  size_t back = 0;
  for (size_t i = s.size(); i > 0; i = char_before(s, i)) ++back;
  EXPECT_EQ(forward, back);
  EXPECT_EQ(forward, count_chars(s));
  EXPECT_EQ(byte_of_char(s, 2), 3u);
}

TEST(JinjaLiteral, PrintsFloatsAsPythonDoes) {
  const std::pair<double, const char*> cases[] = {{1.0, "1.0"},
                                                  {0.1, "0.1"},
                                                  {1e15, "1000000000000000.0"},
                                                  {1e16, "1e+16"},
                                                  {1.5e-5, "1.5e-05"},
                                                  {0.0001, "0.0001"},
                                                  {123456.789, "123456.789"},
                                                  {-0.0, "-0.0"},
                                                  {1e300, "1e+300"},
                                                  {5e-324, "5e-324"},
                                                  {2.0 / 3, "0.6666666666666666"},
                                                  {1e22, "1e+22"},
                                                  {9007199254740993.0, "9007199254740992.0"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(float_repr(value), text);
}

TEST(JinjaLiteral, ReadsNumbersAsPythonDoes) {
  EXPECT_EQ(parse_int(" -1_000 ", 10), -1000);
  EXPECT_EQ(parse_int("0x1F", 16), 31);
  EXPECT_EQ(parse_int("0b11", 0), 3);
  for (const char* bad : {"", "1__0", "_1", "1_", "1.0", "0x", "--1", "99999999999999999999"}) {
    EXPECT_EQ(parse_int(bad, 10), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_float(" 1_0.5e1 "), 105.0);
  EXPECT_EQ(parse_float("1."), 1.0);
  for (const char* bad : {"", ".", "1e", "1_", "e5", "0x1p3", "1 2"}) EXPECT_EQ(parse_float(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace ingot::jinja
