#include "text/decode/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace ingot {
namespace {

TEST(StopStrings, HoldsBackOnlyWhatMayStop) {
  StopStrings stops({"END", "\n\n"});
  EXPECT_EQ(stops.push("a\n"), "a");
  EXPECT_EQ(stops.push("b"), "\nb");
  EXPECT_EQ(stops.push("E"), "");
  EXPECT_EQ(stops.push("NE"), "EN");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("Dx"), "");
  EXPECT_EQ(stops.matched(), "END");
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GivesTheRestAtTheEnd) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("the EN"), "the ");
  EXPECT_EQ(stops.finish(), "EN");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, NoneIsTransparent) {
  StopStrings stops(std::vector<std::string>{"", ""});
  EXPECT_EQ(stops.push("abc"), "abc");
  EXPECT_EQ(stops.finish(), "");
}

// The text before the stop that is completed first, the longest of those; found by trying every place.
std::string before_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); end++) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopStrings, CutsDoNotMatter) {
  std::mt19937 rng(4);
  const auto word = [&](size_t n) {
    std::string text(n, 'a');
    for (char& c : text) c = static_cast<char>('a' + rng() % 2);
    return text;
  };
  for (int i = 0; i < 20000; i++) {
    std::vector<std::string> list(rng() % 4);
    for (std::string& stop : list) stop = word(rng() % 5);
    const std::string text = word(rng() % 24);
    StopStrings stops(list);
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const size_t n = 1 + rng() % 5;
      out += stops.push(text.substr(pos, n));
      pos += n;
    }
    out += stops.finish();
    ASSERT_EQ(out, before_stop(text, list)) << text;
  }
}

}  // namespace
}  // namespace ingot
