#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <thread>

#include "files/json.h"
#include "grammar/grammar.h"
#include "grammar/json_parts.h"
#include "grammar/matcher_test_support.h"
#include "grammar/regex/pattern.h"

namespace ingot::grammar {
namespace {

std::shared_ptr<const Compiled> compiled_from(GrammarBuilder& builder, Symbol start, const Limits& limits = {}) {
  return std::make_shared<const Compiled>(builder.build(start), small_vocabulary(), limits);
}

bool accepts(const std::shared_ptr<const Compiled>& compiled, std::string_view text) {
  Matcher matcher(compiled);
  return matcher.advance_text(text) && matcher.may_end();
}

std::shared_ptr<const Compiled> arithmetic() {
  GrammarBuilder b;
  Regexes& r = b.regexes();
  const Symbol expression = b.rule("expression"), term = b.rule("term");
  const Symbol number = b.lexeme(r.plus(r.bytes(ByteSet::range('0', '9'))));
  const Symbol sign = b.lexeme(r.bytes(ByteSet::of("+*")));
  b.add(expression, {term});
  b.add(expression, {expression, sign, term});
  b.add(term, {number});
  b.add(term, {b.text("("), expression, b.text(")")});
  return compiled_from(b, expression);
}

// a^n b^n, right-recursive lists, and lexemes that overlap: "a" and "aa" and letters.
std::shared_ptr<const Compiled> ambiguous() {
  GrammarBuilder b;
  Regexes& r = b.regexes();
  const Symbol pairs = b.rule("pairs"), list = b.rule("list"), start = b.rule("start");
  b.add(pairs, {b.text("a"), pairs, b.text("b")});
  b.add(pairs, {});
  const Symbol word = b.lexeme(r.plus(r.bytes(ByteSet::range('a', 'c'))));
  b.add(list, {word, b.text("aa"), list});
  b.add(list, {word});
  b.add(list, {b.lexeme(r.star(r.literal("x"))), b.text("a")});
  b.add(start, {pairs, b.text("c"), list});
  b.add(start, {start, b.text("+"), start});
  return compiled_from(b, start);
}

std::shared_ptr<const Compiled> records() {
  GrammarBuilder b;
  JsonParts json(b);
  Regexes& r = b.regexes();
  const Symbol short_text = json.spaced(r.concat({r.literal("\""), r.repeat(json.string_char, 2, 7), r.literal("\"")}));
  const Symbol other_text =
      json.spaced(r.without(json.string, r.any_of({r.literal("\"name\""), r.literal("\"age\"")})));
  const Symbol name = json.spaced(r.concat(r.literal("\"name\""), r.literal(":")));
  const Symbol age = json.spaced(r.literal("\"age\":"));
  const Symbol record =
      b.sequence({json.open_object, name, short_text, json.comma, age, json.spaced(json.integer),
                  b.separated(b.sequence({json.comma, other_text, json.colon, json.any_value()}), b.empty(), 0, 3),
                  json.close_object});
  return compiled_from(b, b.sequence({json.open_array, b.separated(record, json.comma, 1, 5), json.close_array}));
}

TEST(Matcher, TheFastMaskIsThePlainOne) {
  const auto vocabulary = small_vocabulary();
  EXPECT_GE(random_walk(compile({.language = Language::kJsonObject}, vocabulary), 1, 3000, 4), 1);
  EXPECT_GE(random_walk(arithmetic(), 2, 2000, 2), 0);
  EXPECT_GE(random_walk(ambiguous(), 3, 1500, 2), 0);
  EXPECT_GE(random_walk(records(), 4, 3000, 2), 1);
  uint32_t seed = 5;
  for (const char* pattern : {"[a-z]{2,40}(\"[^\"]*\")?", "(a|aa)+b?", "\\d+(\\.\\d+)?(, \\d+)*", ".{3,30}",
                              "(?:north|south)+", "[^\\x00-\\x1f\"\\\\]{1,17}", "(\\p{L}|\\s)+!", "[\\w-]{1,255}",
                              "[a-zA-Z]{12,17}(-[0-9]+)?", "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?(\\.[a-z]+)?"}) {
    EXPECT_GE(random_walk(compile({.language = Language::kRegex, .text = pattern}, vocabulary), seed++, 600, 2), 0)
        << pattern;
  }
}

TEST(Matcher, RandomAnswersInJsonModeAreJson) {
  const auto compiled = compile({.language = Language::kJsonObject}, small_vocabulary());
  std::mt19937 random(9);
  int ended = 0;
  for (int round = 0; round < 40; round++) {
    Matcher matcher(compiled);
    std::string text;
    for (int step = 0; step < 300 && !matcher.complete(); step++) {
      const std::vector<uint32_t> words = mask_of(matcher);
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token < compiled->vocabulary().size(); token++) {
        const std::string_view bytes = compiled->vocabulary().token_bytes(token);
        const bool closes = bytes.find_first_of("}]\"") != std::string_view::npos;
        // Closing is preferred more and more, so that most of them end.
        if (in_mask(words, token)) allowed.insert(allowed.end(), closes ? 1 + static_cast<size_t>(step) : 1, token);
      }
      const int32_t token = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.advance(token));
      text += compiled->vocabulary().token_bytes(token);
    }
    if (!matcher.complete()) continue;
    ended++;
    EXPECT_TRUE(parse_json(text, "answer", {.max_depth = 1000}).is_object()) << text;
  }
  EXPECT_GE(ended, 20);
}

TEST(Matcher, JsonModeTakesWhatItShould) {
  const auto compiled = compile({.language = Language::kJsonObject}, small_vocabulary());
  for (const char* text : {"{}", "{\"a\": [1, -2.5e+3, true, null, \"x\\n\\u00e9\\ud83d\\ude00\"], \"b\":{}}",
                           "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}", " {\"\":\"\"}"}) {
    EXPECT_TRUE(accepts(compiled, text)) << text;
  }
  for (const char* text : {"[]", "{\"a\":01}", "{\"a\" :1}", "{,}", "{\"a\":1,}", "{\"a\":\"\\x\"}", "{\"a\":\"\n\"}",
                           "{\"a\":.5}", "{\"a\":\"\\ud800\"}", "{}}", "{\n\n}", "{\"a\":1", ""}) {
    EXPECT_FALSE(accepts(compiled, text)) << text;
  }
}

TEST(Matcher, TokensAcrossLexemesAreAllowed) {
  const auto compiled = compile({.language = Language::kJsonObject}, small_vocabulary());
  const auto id = [&](std::string_view text) {
    for (int32_t token = 0; token < compiled->vocabulary().size(); token++) {
      if (compiled->vocabulary().token_bytes(token) == text) return token;
    }
    return -1;
  };
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance(id("{\"")));
  EXPECT_TRUE(in_mask(mask_of(matcher), id("\": {\"")));
  EXPECT_TRUE(in_mask(mask_of(matcher), id("me\":")));
  EXPECT_FALSE(in_mask(mask_of(matcher), id("\",")));
  EXPECT_TRUE(in_mask(mask_of(matcher), id("a long piece of plain text")));
  EXPECT_FALSE(in_mask(mask_of(matcher), id("\n")));
  ASSERT_TRUE(matcher.advance(id("\": {\"")));
  matcher.rollback(2);
  EXPECT_EQ(matcher.advanced(), 0);
  EXPECT_TRUE(in_mask(mask_of(matcher), id("{\"a\":1}")));
  EXPECT_FALSE(in_mask(mask_of(matcher), id("true")));
}

TEST(Matcher, EndsAreToldAndTakenBack) {
  const auto compiled =
      compile({.language = Language::kChoice, .choices = {"north", "northern", "no"}}, small_vocabulary());
  const int32_t end = compiled->vocabulary().size() - 1;
  Matcher matcher(compiled);
  EXPECT_FALSE(matcher.may_end());
  EXPECT_FALSE(matcher.advance(end));
  ASSERT_TRUE(matcher.advance_text("north"));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(in_mask(mask_of(matcher), end));
  EXPECT_TRUE(in_mask(mask_of(matcher), 'e'));
  ASSERT_TRUE(matcher.advance(end));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.advance('e'));
  EXPECT_TRUE(in_mask(mask_of(matcher), end));
  matcher.rollback(1);
  ASSERT_TRUE(matcher.advance_text("ern"));
  EXPECT_TRUE(matcher.complete());
  const std::vector<uint32_t> words = mask_of(matcher);
  for (int32_t token = 0; token < end; token++) EXPECT_FALSE(in_mask(words, token));
  EXPECT_TRUE(in_mask(words, end));
}

TEST(Matcher, ForcedTextIsAllThatMustFollow) {
  const auto forced = [](std::string_view pattern, std::string_view before) {
    const auto compiled = compile({.language = Language::kRegex, .text = std::string(pattern)}, small_vocabulary());
    Matcher matcher(compiled);
    EXPECT_TRUE(matcher.advance_text(before));
    return matcher.forced();
  };
  EXPECT_EQ(forced("abc[de]f", ""), "abc");
  EXPECT_EQ(forced("abc[de]f", "abcd"), "f");
  EXPECT_EQ(forced("north(ern)?", "no"), "rth");
  EXPECT_EQ(forced("(alpha|alpine)", ""), "alp");
  EXPECT_EQ(forced("x{1000}", "").size(), 256u);
  const auto compiled = records();
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance_text("[{\"n"));
  EXPECT_EQ(matcher.forced(), "ame\":");
  ASSERT_TRUE(matcher.advance_text("ame\":\"abcdefg"));
  EXPECT_EQ(matcher.forced(), "\",");
  EXPECT_TRUE(matcher.advance_text("\","));
}

TEST(Matcher, ClonesGoTheirOwnWay) {
  const auto compiled = records();
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance_text("[{\"name\": \"Ada\", \"age\": 3"));
  const auto copy = matcher.clone();
  EXPECT_EQ(copy->advanced(), 0);
  ASSERT_TRUE(copy->advance_text("6}]"));
  EXPECT_TRUE(copy->complete());
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(matcher.advance_text(", \"x\": [1]}, {"));
}

TEST(Matcher, SpecialTokensAreNoText) {
  GrammarBuilder b;
  Regexes& r = b.regexes();
  const auto vocabulary = small_vocabulary();
  const int32_t call = vocabulary->special_token("<|call|>").value(),
                other = vocabulary->special_token("<|other|>").value();
  const Symbol text = b.lexeme(r.without(r.star(r.any_char()), r.literal("stop")));
  const Symbol wild = b.lexeme(r.complement(r.literal("x")));
  const auto compiled = compiled_from(b, b.sequence({text, b.special_token(*vocabulary, call), wild}));
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance_text("<|call|> is text here"));
  std::vector<uint32_t> words = mask_of(matcher);
  EXPECT_TRUE(in_mask(words, call));
  EXPECT_FALSE(in_mask(words, other));
  ASSERT_TRUE(matcher.advance(call));
  words = mask_of(matcher);
  EXPECT_FALSE(in_mask(words, call));
  EXPECT_FALSE(in_mask(words, other));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(vocabulary->special_token("abc").has_value());
}

TEST(Matcher, DeepNestingNeedsNoStack) {
  const auto compiled = compile({.language = Language::kJsonObject}, small_vocabulary());
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance_text("{\"a\":"));
  for (int i = 0; i < 20'000; i++) ASSERT_TRUE(matcher.advance('[')) << i;
  EXPECT_TRUE(in_mask(mask_of(matcher), ']'));
  for (int i = 0; i < 20'000; i++) ASSERT_TRUE(matcher.advance(']')) << i;
  ASSERT_TRUE(matcher.advance('}'));
  EXPECT_TRUE(matcher.complete());
}

TEST(Matcher, LongListsReuseTheirRows) {
  const auto compiled = compile({.language = Language::kJsonObject}, small_vocabulary());
  Matcher matcher(compiled);
  ASSERT_TRUE(matcher.advance_text("{\"a\":[1"));
  ASSERT_TRUE(matcher.advance_text(",{\"b\":[2,3]}"));
  mask_of(matcher);
  const size_t before = matcher.memory();
  for (int i = 0; i < 2000; i++) {
    ASSERT_TRUE(matcher.advance_text(",{\"b\":[2,3]}"));
    if (i % 100 == 0) mask_of(matcher);
  }
  EXPECT_LT(matcher.memory(), before + 200'000);
}

TEST(Matcher, RightRecursionIsLinear) {
  GrammarBuilder b;
  const Symbol list = b.rule("list");
  b.add(list, {b.text("a"), list});
  b.add(list, {b.text("a")});
  const auto compiled = compiled_from(b, list, {.row_items = 50});
  Matcher matcher(compiled);
  for (int i = 0; i < 5000; i++) ASSERT_TRUE(matcher.advance('a')) << i << matcher.failure();
  EXPECT_TRUE(matcher.may_end());
}

TEST(Matcher, ALimitFailsAndAllowsNothing) {
  const auto walk = [](const std::shared_ptr<const Compiled>& compiled) {
    Matcher matcher(compiled);
    std::vector<uint32_t> words(compiled->vocabulary().words());
    for (int i = 0; i < 1000; i++) {
      if (!matcher.mask(words)) break;
      if (!matcher.advance('[') && matcher.failed()) break;
    }
    EXPECT_TRUE(matcher.failed());
    EXPECT_NE(matcher.failure().find("[grammar]"), std::string::npos);
    EXPECT_FALSE(matcher.mask(words));
    for (const uint32_t word : words) EXPECT_EQ(word, 0u);
    EXPECT_FALSE(matcher.advance('['));
    EXPECT_FALSE(matcher.may_end());
    EXPECT_FALSE(matcher.complete());
    EXPECT_EQ(matcher.forced(), "");
  };
  const auto json = [](const Limits& limits) {
    GrammarBuilder b;
    JsonParts parts(b);
    return compiled_from(b, parts.any_array(), limits);
  };
  walk(json({.states = 12}));
  walk(json({.matcher_bytes = 20'000}));
  walk(json({.mask_steps = 10}));
  walk(json({.row_items = 5}));
}

// The mask of `source` fails, soon, for a vocabulary of many words in two cases.
void expect_a_limit(const Source& source) {
  std::vector<Vocabulary::Token> tokens = small_tokens();
  std::mt19937 random(3);
  for (int i = 0; i < 4000; i++) {
    std::string text;
    for (int k = 0; k < 6; k++) text += static_cast<char>((random() % 2 == 0 ? 'a' : 'A') + random() % 26);
    tokens.push_back({text, false});
  }
  const auto end = static_cast<int32_t>(small_tokens().size()) - 1;
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
  const auto compiled = compile(source, vocabulary);
  Matcher matcher(compiled);
  std::vector<uint32_t> words(compiled->vocabulary().words());
  EXPECT_FALSE(matcher.mask(words));
  EXPECT_NE(matcher.failure().find("under way at once"), std::string::npos) << matcher.failure();
  EXPECT_TRUE(std::ranges::all_of(words, [](uint32_t word) { return word == 0; }));
}

std::string two_letters(int i) {
  return std::string(1, static_cast<char>('a' + i % 26)) + static_cast<char>('A' + i / 26 % 26);
}

// Every byte makes a state of as many parts.
TEST(Matcher, LexemesThatAreManyAtOnceReachALimit) {
  std::string grammar = "root ::= r0";
  for (int i = 1; i < 3000; i++) grammar += " | r" + std::to_string(i);
  for (int i = 0; i < 3000; i++) {
    const std::string name = "r" + std::to_string(i);
    grammar += "\n" + name + " ::= [^" + two_letters(i) + "!]* \"!" + std::to_string(i) + "\" " + name + " | \"z\"";
  }
  expect_a_limit({.language = Language::kGbnf, .text = grammar, .choices = {}});
}

// One lexeme, of which every byte makes another with as many alternatives.
TEST(Matcher, AlternativesOfOneLexemeReachALimitToo) {
  std::string pattern = "(";
  for (int i = 0; i < 3000; i++) {
    pattern += (i > 0 ? "|[^" : "[^") + two_letters(i) + "!]*!" + std::to_string(i);
  }
  expect_a_limit({.language = Language::kRegex, .text = pattern + ")", .choices = {}});
}

TEST(Matcher, ManyThreadsShareOneGrammar) {
  const auto compiled = records();
  std::vector<std::thread> threads;
  std::array<int, 4> ended{};
  for (uint32_t t = 0; t < 4; t++) {
    threads.emplace_back([&, t] { ended[t] = random_walk(compiled, 100 + t, 500, 50); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int n : ended) EXPECT_GE(n, 0);
}

TEST(GrammarBuilder, WhatDerivesNothingVanishes) {
  GrammarBuilder b;
  Regexes& r = b.regexes();
  const Symbol start = b.rule("start"), endless = b.rule("endless");
  b.add(endless, {b.text("x"), endless});
  b.add(start, {endless});
  b.add(start, {b.lexeme(r.all_of({r.plus(r.literal("a")), r.plus(r.literal("b"))}))});
  EXPECT_FALSE(b.is_productive(start));
  b.add(start, {b.text("ok"), b.optional(endless)});
  EXPECT_TRUE(b.is_productive(start));
  const auto compiled = compiled_from(b, start);
  EXPECT_TRUE(accepts(compiled, "ok"));
  Matcher matcher(compiled);
  EXPECT_FALSE(matcher.advance_text("x"));
  EXPECT_FALSE(matcher.advance_text("a"));
  GrammarBuilder none;
  EXPECT_THROW(none.build(none.nothing()), GrammarError);
  EXPECT_THROW(compile({.language = Language::kChoice}, small_vocabulary()), GrammarError);
  EXPECT_THROW(compile({.language = Language::kRegex, .text = "(?=a)"}, small_vocabulary()), GrammarError);
}

TEST(GrammarBuilder, RepeatsOfRulesCount) {
  const auto check = [](uint32_t min, uint32_t max, std::vector<int> good, std::vector<int> bad) {
    GrammarBuilder c;
    const Symbol one = c.sequence({c.text("a"), c.optional(c.text("b"))});
    const auto compiled =
        compiled_from(c, c.sequence({c.text("["), c.separated(one, c.text(","), min, max), c.text("]")}));
    const auto text = [](int n) {
      std::string out = "[";
      for (int i = 0; i < n; i++) out += i == 0 ? "a" : i % 2 == 0 ? ",a" : ",ab";
      return out + "]";
    };
    for (const int n : good) EXPECT_TRUE(accepts(compiled, text(n))) << min << " " << max << " " << n;
    for (const int n : bad) EXPECT_FALSE(accepts(compiled, text(n))) << min << " " << max << " " << n;
  };
  check(0, kUnbounded, {0, 1, 7}, {});
  check(1, kUnbounded, {1, 7}, {0});
  check(3, kUnbounded, {3, 9}, {0, 2});
  check(0, 0, {0}, {1});
  check(0, 3, {0, 1, 3}, {4});
  check(2, 4, {2, 3, 4}, {0, 1, 5});
  check(1000, 1000, {1000}, {999, 1001});
}

TEST(Compile, KeysTellSourcesApart) {
  const Source a = {.language = Language::kRegex, .text = "x"}, b = {.language = Language::kLark, .text = "x"};
  const Source c = {.language = Language::kChoice, .choices = {"ab", "c"}},
               d = {.language = Language::kChoice, .choices = {"a", "bc"}};
  EXPECT_NE(a.key(), b.key());
  EXPECT_NE(c.key(), d.key());
  EXPECT_EQ(a.key(), Source(a).key());
  EXPECT_THROW(compile({.language = Language::kRegex, .text = std::string(2 << 20, 'a')}, small_vocabulary()),
               LimitError);
}

}  // namespace
}  // namespace ingot::grammar
