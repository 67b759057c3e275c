#include "grammar/regex/pattern.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace ingot::grammar {
namespace {

bool full(std::string_view pattern, std::string_view text, PatternOptions options = {}) {
  Regexes pool;
  return pool.matches(parse_pattern(pool, pattern, options), text);
}
bool search(std::string_view pattern, std::string_view text) { return full(pattern, text, {.search = true}); }

TEST(Pattern, WholeTexts) {
  EXPECT_TRUE(full("a|b*c", "bbc"));
  EXPECT_FALSE(full("a|b*c", "ac"));
  EXPECT_TRUE(full("(ab){2,3}", "ababab"));
  EXPECT_FALSE(full("(ab){2,3}", "ab"));
  EXPECT_TRUE(full("(?:ab)??c", "c"));
  EXPECT_TRUE(full("(?<year>\\d{4})-\\d\\d", "2024-05"));
  EXPECT_TRUE(full("[^a-c\\]]+", "xyz["));
  EXPECT_FALSE(full("[^a-c\\]]+", "x]"));
  EXPECT_TRUE(full("[\\w.-]+@[\\w-]+\\.[a-z]{2,}", "a.b-c@d-e.org"));
  EXPECT_TRUE(full(".", "é"));
  EXPECT_TRUE(full(".", "\xF0\x9F\x98\x80"));
  EXPECT_FALSE(full(".", "\n"));
  EXPECT_TRUE(full(".", "\n", {.dot_all = true}));
  EXPECT_TRUE(
      full("\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00\\cA\\0", std::string("éA\xF0\x9F\x98\x80\xF0\x9F\x98\x80\x01\0", 13)));
  EXPECT_TRUE(full("\\p{Lu}\\p{Letter}+\\P{L}", "Éa1"));
  EXPECT_TRUE(full("^\\p{gc=Nd}+$", "٣4"));
  EXPECT_TRUE(full("\\s\\S\\D\\W", "\xC2\xA0x-!"));
  EXPECT_TRUE(full("a{,3}", "a{,3}"));  // no bounds: the braces themselves
  EXPECT_TRUE(full("", ""));
  EXPECT_TRUE(full("(|a)b", "b"));
  EXPECT_TRUE(full("HeLLo-[a-c]", "hEllO-B", {.ignore_case = true}));
  EXPECT_TRUE(full("(?i)ab(?-i:C)", "ABC"));
  EXPECT_FALSE(full("(?i)ab(?-i:C)", "ABc"));
}

TEST(Pattern, AnchorsDecideWhereASearchMayBegin) {
  EXPECT_TRUE(search("b", "abc"));
  EXPECT_FALSE(search("^b", "abc"));
  EXPECT_TRUE(search("^a", "abc"));
  EXPECT_TRUE(search("c$", "abc"));
  EXPECT_FALSE(search("b$", "abc"));
  EXPECT_TRUE(search("^abc$", "abc"));
  EXPECT_FALSE(search("^abc$", "abcd"));
  EXPECT_TRUE(search("^a|c$", "xxc"));
  EXPECT_TRUE(search("^a|c$", "axx"));
  EXPECT_FALSE(search("^a|c$", "xax"));
  EXPECT_TRUE(search("(^|/)x", "x"));
  EXPECT_TRUE(search("(^|/)x", "a/x"));
  EXPECT_FALSE(search("(^|/)x", "ax"));
  EXPECT_TRUE(search("x(/|$)", "ax"));
  EXPECT_FALSE(search("a^b", "ab"));
  EXPECT_TRUE(search("a*^b", "b"));
  EXPECT_TRUE(search("", "anything"));
  EXPECT_TRUE(search("^$", ""));
  EXPECT_FALSE(search("^$", "x"));
}

TEST(Pattern, WhatIsNotTakenIsNamed) {
  const auto message = [](std::string_view pattern) -> std::string {
    Regexes pool;
    try {
      parse_pattern(pool, pattern);
    } catch (const GrammarError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_NE(message("(?=x)a").find("look-around"), std::string::npos);
  EXPECT_NE(message("(?<!x)a").find("look-around"), std::string::npos);
  EXPECT_NE(message("(?<=x)*").find("look-around"), std::string::npos);
  EXPECT_NE(message("(a)\\1").find("back-reference"), std::string::npos);
  EXPECT_NE(message("(?<n>a)\\k<n>").find("back-reference"), std::string::npos);
  EXPECT_NE(message("\\bword").find("word border"), std::string::npos);
  EXPECT_NE(message("\\p{Script=Greek}").find("Script=Greek"), std::string::npos);
  for (const char* bad : {"(", ")", "[a", "a**", "*a", "a{3,2}", "\\", "\\q", "[b-a]", "(?<>x)", "(?", "(?P", "a{2}{3}",
                          "\\u{110000}", "\\xZ1", "(^a)*", "\xFF"}) {
    EXPECT_NE(message(bad), "taken") << bad;
  }
}

TEST(Pattern, DeepNestingIsALimitAndNoStack) {
  Regexes pool;
  std::string deep(60'000, '(');
  deep += 'a';
  deep.append(60'000, ')');
  EXPECT_THROW(parse_pattern(pool, deep), LimitError);
  EXPECT_TRUE(pool.matches(parse_pattern(pool, deep, {.max_depth = 100'000}), "a"));
  EXPECT_TRUE(full("(a?){64}a{64}", std::string(100, 'a')));
}

}  // namespace
}  // namespace ingot::grammar
