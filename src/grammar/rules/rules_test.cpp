// GBNF, Lark and structural tags: what they let through and what not, and where a text is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/data_test_support.h"
#include "files/json.h"
#include "grammar/front_ends.h"
#include "grammar/plain_matcher_test_support.h"
#include "grammar/vocabulary.h"

namespace ingot::grammar {
namespace {

const Vocabulary& vocabulary() {
  static const int32_t end = 2;
  static const Vocabulary made({{"a", false}, {"<|call|>", true}, {"<end>", true}}, std::span(&end, 1));
  return made;
}

using Maker = std::shared_ptr<const Grammar> (*)(const std::string&);
std::shared_ptr<const Grammar> gbnf(const std::string& text) { return gbnf_grammar(text, {}); }
std::shared_ptr<const Grammar> lark(const std::string& text) { return lark_grammar(text, vocabulary(), {}); }
std::shared_ptr<const Grammar> tags(const std::string& text) { return structural_tag_grammar(text, vocabulary(), {}); }

void expect(Maker make, const std::string& source, const std::vector<std::string>& taken,
            const std::vector<std::string>& refused) {
  SCOPED_TRACE(source);
  try {
    PlainMatcher matcher(make(source));
    for (const std::string& text : taken) EXPECT_TRUE(matcher.accepts(text)) << text;
    for (const std::string& text : refused) EXPECT_FALSE(matcher.accepts(text)) << text;
  } catch (const GrammarError& error) {
    ADD_FAILURE() << error.place() << " " << error.what();
  }
}

std::string place_of(Maker make, const std::string& source) {
  try {
    make(source);
  } catch (const GrammarError& error) {
    return error.place();
  }
  return "taken";
}

TEST(Gbnf, LiteralsClassesAndCounts) {
  expect(gbnf, "root ::= \"a\"{2} [b-d]+ [^x]? .\n", {"aabz", "aabcdbq", "aabéé"}, {"abz", "aabxx", "aa"});
  expect(gbnf, R"(root ::= "\x41\u00e9\t\"\\" [\]\-a])", {"Aé\t\"\\]", "Aé\t\"\\a"}, {"Aé\t\"\\b"});
  expect(gbnf, "root ::= ( \"x\" |\n  \"y\" )* \"z\"{1,2}\n", {"z", "xyzz"}, {"", "zzz"});
  expect(gbnf, "root ::= | \"a\" root\n", {"", "aaa"}, {"b"});
}

TEST(Gbnf, Recursion) {
  expect(gbnf, "# sums\nroot ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n",
         {"1", "1+(2+3)", "((7))"}, {"1+", "(1", "()"});
  expect(gbnf, "root ::= root \"a\" | \"b\"\n", {"b", "baa"}, {"a", "ab"});
}

TEST(Gbnf, Errors) {
  EXPECT_EQ(place_of(gbnf, "start ::= \"a\"\n"), "");
  EXPECT_EQ(place_of(gbnf, "root ::= \"a\"\n  | missing\n"), "line 2, column 5");
  EXPECT_EQ(place_of(gbnf, "root ::= (\"a\"\n"), "line 2, column 1");
  EXPECT_EQ(place_of(gbnf, "root ::= \"a"), "line 1, column 12");
  EXPECT_EQ(place_of(gbnf, "root ::= \"a\" )\n"), "line 1, column 14");
  EXPECT_EQ(place_of(gbnf, "root ::= \"a\"\nroot ::= \"b\"\n"), "line 2, column 1");
  EXPECT_EQ(place_of(gbnf, "root ::= [z-a]\n"), "line 1, column 14");
  EXPECT_NE(place_of(gbnf, "root ::= root\n"), "taken");
  EXPECT_NE(place_of(gbnf, "root ::= " + std::string(100'000, '(')), "taken");
  EXPECT_NE(place_of(gbnf, "root ::= \"a\"" + std::string(100'000, '*')), "taken");
}

TEST(Gbnf, Samples) {
  const std::vector<std::string> names = test_data_names("grammars", ".gbnf");
  if (names.empty()) GTEST_SKIP() << "no samples of GBNF";
  for (const std::string& name : names) {
    EXPECT_EQ(place_of(gbnf, read_text_file(test_data("grammars/" + name + ".gbnf"))), "taken") << name;
  }
  const auto sample = [](const char* name) { return read_text_file(test_data("grammars/" + std::string(name))); };
  expect(gbnf, sample("json.gbnf"), {R"({"a":[1, 2.5e3, null], "b":"x\n"})"}, {"{", "[]", R"({"a":1,  "b":2})"});
  expect(gbnf, sample("chess.gbnf"), {"1. e4 e5\n2. Nf3 Nc6\n"}, {"1. e9 e5\n2. Nf3 Nc6\n"});
  expect(gbnf, sample("c.gbnf"), {"int main(){return 1+x;}"}, {"int main(){return 1+;}"});
  expect(gbnf, sample("japanese.gbnf"), {"こんにちは 世界"}, {"hello"});
}

TEST(Lark, RulesAndTerminals) {
  expect(lark, "start: expr\n?expr: expr \"+\" term | term\nterm: INT -> number\n%import common.INT\n%ignore \" \"\n",
         {"1", "1+2", " 1 + 22 "}, {"1+", "+", "1 2 +"});
  expect(lark, "start: NAME (\",\" NAME)*\nNAME.2: /[a-z]+\\/?/i\n", {"ab", "Ab/,c"}, {"1", "a,,b"});
  expect(lark, "start: \"a\"~2 \"b\"~1..3 [\"c\"i] (D|E)+\nD: \"d\"\nE: \"x\"..\"z\" D\n", {"aabCd", "aabbbydd"},
         {"abd", "aabbbbd", "aabc"});
  expect(lark, "// a comment\nstart: \"x\" start \"y\"\n     | \"-\" // centre\n", {"-", "xx-yy"}, {"x-", "xy"});
  expect(lark, "%import common (WS, ESCAPED_STRING)\n%ignore WS\nstart: ESCAPED_STRING+\n", {"\"a\\\"b\" \"c\""},
         {"\"a"});
  const std::string call = special_code(1);
  expect(lark, "start: <|call|> /[a-z]+/\n", {call + "ab"}, {"<|call|>ab", "ab"});
}

TEST(Lark, Errors) {
  EXPECT_EQ(place_of(lark, "rule: \"a\"\n"), "");
  EXPECT_EQ(place_of(lark, "start: A\n"), "line 1, column 8");
  EXPECT_EQ(place_of(lark, "start: A\nA: \"a\" A\n"), "line 2, column 8");
  EXPECT_EQ(place_of(lark, "start: A\nA: start\n"), "line 2, column 4");
  EXPECT_EQ(place_of(lark, "start: /a(?=b)/\n"), "line 1, column 8");
  EXPECT_EQ(place_of(lark, "%declare A\nstart: A\n"), "line 1, column 10");
  EXPECT_EQ(place_of(lark, "start: <none>\n"), "line 1, column 8");
  EXPECT_EQ(place_of(lark, "start: \"a\" <end>\n"), "line 1, column 12");  // ends answers: nothing could be its mask
  EXPECT_NE(place_of(lark, "start: " + std::string(100'000, '[')), "taken");
}

TEST(StructuralTag, TriggersBeginTags) {
  expect(tags, R"({"type":"structural_tag","triggers":["<f="],"structures":[
      {"begin":"<f=x>","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},"end":"</f>"},
      {"begin":"<f=y>","schema":{"type":"null"},"end":"</f>"}]})",
         {"", "free text < f", "so: <f=x>{\"a\":1}</f> and <f=y>null</f>.", "<<f=y>null</f>"},
         {"<f=z>", "<f=x>{}</f>", "<f=y>null", "a <f= b"});
}

TEST(StructuralTag, Formats) {
  expect(tags, R"({"format":{"type":"sequence","elements":[{"type":"const_string","value":"<|call|>"},
      {"type":"regex","pattern":"[0-9]+"},{"type":"or","elements":[{"type":"json_schema","json_schema":{"const":"j"}},
      {"type":"grammar","grammar":"root ::= \"x\" root | \"y\""}]}]}})",
         {special_code(1) + "12\"j\"", special_code(1) + "1xxy"}, {"<|call|>1y", special_code(1) + "y"});
  expect(tags, R"({"format":{"type":"triggered_tags","triggers":["<t>"],"at_least_one":true,"stop_after_first":true,
      "tags":[{"type":"tag","begin":"<t>","content":{"type":"any_text"},"end":"</t>"}]}})",
         {"x<t>y</t>", "<t></t>"}, {"x", "<t>y", "<t>y</t>z", "<t></t></t>"});
  expect(tags, R"({"format":{"type":"tags_with_separator","separator":",","tags":[
      {"type":"tag","begin":"[","content":{"type":"json_schema","json_schema":{"type":"boolean"}},"end":"]"}]}})",
         {"", "[true]", "[true],[false]"}, {"[true],", "[true][true]"});
}

TEST(StructuralTag, Errors) {
  EXPECT_EQ(place_of(tags, R"({"format":{"type":"qwen"}})"), "#/format/type");
  EXPECT_EQ(place_of(tags, R"({"format":{"type":"const_string","value":"<end>"}})"), "#/format/value");
  EXPECT_EQ(place_of(tags, R"({"triggers":["<t>"],"structures":[{"begin":"<t>","schema":{},"end":"<end>"}]})"), "#");
  EXPECT_EQ(place_of(tags, R"({"triggers":["<end>"],"structures":[{"begin":"<end>","schema":{},"end":""}]})"), "#");
  EXPECT_EQ(place_of(tags, R"({"triggers":["<x"],"structures":[{"begin":"<f>","schema":{},"end":""}]})"), "#");
  EXPECT_EQ(place_of(tags, R"({"triggers":["<"],"structures":[{"begin":"<","schema":{"type":"strin"},"end":""}]})"),
            "#/structures/0/schema/type");
  EXPECT_EQ(place_of(tags, R"({"triggers":["<"],"structures":[{"begin":"<","schema":false,"end":""}]})"),
            "#/structures/0/schema");
  EXPECT_EQ(place_of(tags, "[]"), "#");
}

}  // namespace
}  // namespace ingot::grammar
