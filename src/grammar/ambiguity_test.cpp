// Texts that can be read in many ways: what the parser may take for a token and for a mask.
#include <gtest/gtest.h>

#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/matcher_test_support.h"

namespace ingot::grammar {
namespace {

// Every part of the text is a list: a row takes about n * n / 2 steps after n lexemes.
Symbol lists_of_lists(GrammarBuilder& b) {
  const Symbol list = b.rule("list");
  b.add(list, {list, list});
  b.add(list, {b.text("a")});
  return list;
}

std::shared_ptr<const Compiled> built(GrammarBuilder& builder, Symbol start, const Limits& limits) {
  return std::make_shared<const Compiled>(builder.build(start), small_vocabulary(), limits);
}

TEST(Ambiguity, ReachesALimit) {
  const Limits limits = {.mask_row_steps = 500'000, .token_row_steps = 25'000};
  for (const bool masked : {false, true}) {
    GrammarBuilder b;
    Matcher matcher(built(b, lists_of_lists(b), limits));
    std::vector<uint32_t> words(matcher.compiled().vocabulary().words());
    int taken = 0;
    for (bool goes_on = true; goes_on && taken < 3000; taken++) {
      const size_t before = matcher.parser_steps();
      goes_on = !masked || matcher.mask(words);
      const size_t between = matcher.parser_steps();
      EXPECT_LE(between - before, limits.mask_row_steps);
      goes_on = goes_on && matcher.advance('a');
      EXPECT_FALSE(matcher.complete());
      EXPECT_LE(matcher.parser_steps() - between, limits.token_row_steps);
    }
    EXPECT_NE(matcher.failure().find("too many ways"), std::string::npos) << matcher.failure();
    EXPECT_GT(taken, masked ? 150 : 40);
    EXPECT_LT(taken, masked ? 400 : 200);
  }
}

// What is too dear for a token is left to the mask behind it, which allows the same.
TEST(Ambiguity, WhatATokenCannotPayTheNextMaskDoes) {
  const Limits limits = {.token_row_steps = 2'500};
  GrammarBuilder lists;
  const Symbol list = lists_of_lists(lists);
  EXPECT_GE(random_walk(built(lists, lists.sequence({list, lists.text(".")}), limits), 6, 300, 3, 30), 1);
  // The last token ends as many parts of the text as it has.
  GrammarBuilder b;
  const Symbol rest = b.rule("rest");
  b.add(rest, {b.text("a"), rest});
  b.add(rest, {b.text("a"), b.text("a"), rest});
  b.add(rest, {b.text(".")});
  Matcher matcher(built(b, rest, limits));
  for (int i = 0; i < 100; i++) {
    mask_of(matcher);
    ASSERT_TRUE(matcher.advance('a')) << i << matcher.failure();
  }
  mask_of(matcher);
  ASSERT_TRUE(matcher.advance('.'));
  EXPECT_FALSE(matcher.complete());
  const std::vector<uint32_t> words = mask_of(matcher);
  EXPECT_TRUE(in_mask(words, matcher.compiled().vocabulary().size() - 1));
  EXPECT_FALSE(in_mask(words, 'a'));
  EXPECT_TRUE(matcher.complete());
  matcher.rollback(1);
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(in_mask(mask_of(matcher), '.'));
}

// Hundreds of lexemes end within tokens, each in a row of its own that is made of all before it.
TEST(Ambiguity, WithinOneMaskReachesALimit) {
  std::vector<Vocabulary::Token> tokens = small_tokens();
  std::string grammar = "root ::= s\ns ::= s s | \"a\" | \"!\" t\nz ::= \"\" | \"(\" z \")\"\nt ::= \"a\" z";
  for (int i = 0; i < 676; i++) {
    const std::string name = {static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26)};
    tokens.push_back({name, false});
    tokens.push_back({name + "(", false});
    grammar += " | \"" + name + "\" z";
  }
  const auto end = static_cast<int32_t>(small_tokens().size()) - 1;
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::span(&end, 1));
  const Limits limits = {.mask_row_steps = 500'000};
  Matcher matcher(compile({.language = Language::kGbnf, .text = grammar, .choices = {}}, vocabulary, limits));
  std::vector<uint32_t> words(vocabulary->words());
  for (int i = 0; i < 150; i++) {
    ASSERT_TRUE(matcher.mask(words)) << i << matcher.failure();
    ASSERT_TRUE(matcher.advance('a')) << i << matcher.failure();
  }
  ASSERT_TRUE(matcher.mask(words)) << matcher.failure();
  ASSERT_TRUE(matcher.advance('!'));
  const size_t before = matcher.parser_steps();
  EXPECT_FALSE(matcher.mask(words));
  EXPECT_LE(matcher.parser_steps() - before, limits.mask_row_steps);
  EXPECT_NE(matcher.failure().find("too many ways"), std::string::npos) << matcher.failure();
}

}  // namespace
}  // namespace ingot::grammar
