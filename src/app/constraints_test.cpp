#include "app/constraints.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "files/json.h"

namespace ingot {
namespace {

using grammar::Language;
using grammar::Source;

// Printable characters and the line break, one token each, and some longer ones.
struct Words {
  Words() {
    JsonObject vocab{{"<s>", 0}, {"</s>", 1}, {"<end>", 2}};
    int next = 3;
    for (char c = '!'; c < 127; ++c) vocab[std::string(1, c)] = next++;
    for (const char* text : {"\u0120", "\u010A", "\u010A\u010A", "<think>", "</think>", "</", "think", ">x", ">\u010A",
                             "yes", "no", "</think>{", "<tool_call", ">{", ">z", "call>", "x<tool_call>z"}) {
      vocab[text] = next++;
    }
    size = next;
    JsonArray added;
    for (const auto& [id, text] : {std::pair(0, "<s>"), std::pair(1, "</s>"), std::pair(2, "<end>")}) {
      added.push_back(JsonObject{{"id", id},
                                 {"content", text},
                                 {"special", true},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false}});
    }
    const JsonObject level{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    const JsonObject json{{"version", "1.0"},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", level},
                          {"post_processor", nullptr},
                          {"decoder", level},
                          {"model", JsonObject{{"type", "BPE"}, {"vocab", vocab}, {"merges", JsonArray{}}}}};
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-app-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Error("[test] no temporary directory");
    const std::filesystem::path directory = pattern;
    std::ofstream(directory / "tokenizer.json") << to_json(json);
    tokenizer = Tokenizer::load(directory.string());
    std::filesystem::remove_all(directory);
  }
  Token id(std::string_view text) const { return *tokenizer->token_id(text); }

  std::unique_ptr<Tokenizer> tokenizer;
  int size = 0;
};

Words& words() {
  static Words made;
  return made;
}

std::vector<uint32_t> mask_of(TokenConstraint& constraint, int vocab) {
  std::vector<uint32_t> mask((static_cast<size_t>(vocab) + 31) / 32, ~0u);
  constraint.mask(mask);
  return mask;
}

bool allows(TokenConstraint& constraint, Token token, int vocab = words().size) {
  return (mask_of(constraint, vocab)[static_cast<size_t>(token) / 32] >> (token % 32) & 1u) != 0;
}

// A token that is drawn from the mask, until the answer ends; end tokens are left out of the text.
std::string random_answer(TokenConstraint& constraint, uint64_t seed, int most = 400) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int i = 0; i < most && !constraint.complete(); ++i) {
    const std::vector<uint32_t> mask = mask_of(constraint, words().size);
    std::vector<Token> allowed;
    for (Token t = 0; t < words().size; ++t) {
      if ((mask[static_cast<size_t>(t) / 32] >> (t % 32) & 1u) != 0) allowed.push_back(t);
    }
    const Token token = allowed.at(random() % allowed.size());
    constraint.advance(token);
    if (token > 2) text += words().tokenizer->token_bytes(token);
  }
  return text;
}

Source choice_of(std::vector<std::string> texts) {
  return {.language = Language::kChoice, .text = {}, .choices = std::move(texts)};
}

TEST(Constraints, AnAnswerIsOneOfTheChoices) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto made = constraints.make("", choice_of({"yes", "no", "nothing"}), Preface::kNone);
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) seen.insert(random_answer(*made->clone(), seed));
  EXPECT_EQ(seen, (std::set<std::string>{"yes", "no", "nothing"}));
}

// After "no" both an end and more may come; every end token counts.
TEST(Constraints, EveryEndTokenEndsTheAnswer) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto made = constraints.make("", choice_of({"no", "nothing"}), Preface::kNone);
  for (const Token end : {1, 2}) {
    const auto one = made->clone();
    EXPECT_FALSE(allows(*one, end));
    one->advance(words().id("no"));
    EXPECT_FALSE(one->complete());
    EXPECT_TRUE(allows(*one, end));
    EXPECT_FALSE(allows(*one, 0));  // a control token that is no end
    one->advance(end);
    EXPECT_TRUE(one->complete());
    one->rollback(1);
    EXPECT_FALSE(one->complete());
    EXPECT_TRUE(allows(*one, words().id("t")));
  }
  EXPECT_THROW(made->clone()->advance(words().id("x")), ConstraintError);
}

// A head may have more rows than the tokenizer has tokens, or fewer.
TEST(Constraints, VocabulariesOfOtherSizes) {
  for (const int vocab : {words().size - 3, words().size + 70}) {
    Constraints constraints(*words().tokenizer, {1, 2}, vocab);
    const auto made = constraints.make("", {.language = Language::kRegex, .text = "(a|b)+", .choices = {}},
                                       Preface::kOpenedReasoning);
    const auto one = made->clone();
    const std::vector<uint32_t> free = mask_of(*one, vocab);
    for (int t = std::min(vocab, words().size); t < static_cast<int>(free.size()) * 32; ++t) {
      EXPECT_EQ(free[static_cast<size_t>(t) / 32] >> (t % 32) & 1u, 0u) << t;
    }
    for (const char c : std::string("</think>")) one->advance(words().id(std::string(1, c)));
    EXPECT_TRUE(allows(*one, words().id("a"), vocab));
    EXPECT_FALSE(allows(*one, words().id("c"), vocab));
  }
}

TEST(Constraints, ReasoningIsFreeAndTheGrammarBeginsAfterIt) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto made = constraints.make("", choice_of({"yes", "no"}), Preface::kOpenedReasoning);
  for (const bool one_token : {false, true}) {
    const auto one = made->clone();
    for (const char* text : {"x", "think", "</", "think", "x", "<", ">"}) {
      EXPECT_TRUE(allows(*one, words().id(text))) << text;
      one->advance(words().id(text));
    }
    EXPECT_FALSE(allows(*one, 1));  // no end inside
    EXPECT_FALSE(allows(*one, words().id("</think>{")));
    EXPECT_TRUE(allows(*one, words().id(">x")));
    EXPECT_FALSE(one->complete());
    if (one_token) {
      one->advance(words().id("</think>"));
    } else {
      one->advance(words().id("</"));
      one->advance(words().id("think"));
      EXPECT_FALSE(allows(*one, words().id(">x")));  // the text would begin unseen
      EXPECT_TRUE(allows(*one, words().id(">\n")));
      one->advance(words().id(">"));
    }
    EXPECT_TRUE(allows(*one, words().id("yes")));
    EXPECT_FALSE(allows(*one, words().id("x")));
    one->advance(words().id("\n\n"));
    EXPECT_FALSE(allows(*one, words().id("\n\n")));
    one->advance(words().id("no"));
    EXPECT_TRUE(one->complete());
    one->rollback(one_token ? 3 : 5);
    EXPECT_TRUE(allows(*one, words().id("x")));
    EXPECT_FALSE(allows(*one, 1));
  }
}

TEST(Constraints, AnAnswerMayBeginToReason) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto made = constraints.make("", choice_of({"yes", "no"}), Preface::kReasoning);
  const auto at_once = made->clone(), later = made->clone();
  EXPECT_TRUE(allows(*at_once, words().id("<think>")));
  EXPECT_FALSE(allows(*at_once, words().id("x")));
  at_once->advance(words().id("yes"));
  EXPECT_TRUE(at_once->complete());
  later->advance(words().id("<think>"));
  EXPECT_TRUE(allows(*later, words().id("x")));
  later->advance(words().id("</think>"));
  EXPECT_FALSE(allows(*later, words().id("<think>")));
  later->advance(words().id("no"));
  EXPECT_TRUE(later->complete());
}

// Marks around the text are forced one token after the other, after reasoning too.
TEST(Constraints, AFrameStandsAroundTheText) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  for (const Preface preface : {Preface::kNone, Preface::kReasoning, Preface::kOpenedReasoning}) {
    const auto one = constraints.make("", choice_of({"yes", "no"}), preface, "<s>ab", "c<end>")->clone();
    if (preface == Preface::kOpenedReasoning) one->advance(words().id("</think>"));
    EXPECT_EQ(allows(*one, words().id("<think>")), preface == Preface::kReasoning);
    for (const Token token : {Token{0}, words().id("a"), words().id("b")}) {
      EXPECT_FALSE(allows(*one, words().id("yes")));
      EXPECT_TRUE(allows(*one, token));
      one->advance(token);
      EXPECT_FALSE(one->complete());
    }
    one->advance(words().id("no"));
    EXPECT_FALSE(one->complete());
    EXPECT_TRUE(allows(*one, words().id("c")));
    EXPECT_FALSE(allows(*one, 1));
    one->rollback(2);
    one->advance(words().id("b"));
    one->advance(words().id("yes"));
    one->advance(words().id("c"));
    EXPECT_FALSE(one->complete());
    EXPECT_THROW(one->clone()->advance(words().id("c")), ConstraintError);
    one->advance(2);
    EXPECT_TRUE(one->complete());
  }
}

// Two tokens or more that must follow; the last of a text is left out.
TEST(Constraints, ForcedTextIsProposed) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto guess = [](TokenConstraint& constraint, int max) {
    std::vector<int32_t> draft;
    constraint.propose(max, draft);
    return words().tokenizer->decode(draft, true);
  };
  const auto one = constraints.make("", choice_of({"abcdef", "xyz"}), Preface::kNone, "<s>!", "?<end>")->clone();
  EXPECT_TRUE(one->proposes());
  EXPECT_EQ(guess(*one, 8), "<s>!");
  one->advance(0);
  EXPECT_EQ(guess(*one, 8), "");
  one->advance(words().id("!"));
  EXPECT_EQ(guess(*one, 8), "");
  one->advance(words().id("a"));
  EXPECT_EQ(guess(*one, 8), "bcde");
  EXPECT_EQ(guess(*one, 3), "bcd");
  EXPECT_EQ(guess(*one, 1), "");
  for (const char* text : {"b", "c", "d", "e", "f"}) one->advance(words().id(text));
  EXPECT_EQ(guess(*one, 8), "?<end>");
  EXPECT_EQ(guess(*constraints.make("", choice_of({"abcdef"}), Preface::kOpenedReasoning)->clone(), 8), "");
}

TEST(Constraints, AreKeptForEachTenantAlone) {
  Constraints constraints(*words().tokenizer, {1}, words().size);
  int compiled = 0, found = 0, masked = 0;
  constraints.report(
      {.compiled = [&](double) { ++compiled; }, .masked = [&](double) { ++masked; }, .found = [&] { ++found; }});
  for (const char* tenant : {"a", "b", "a", "a"}) constraints.make(tenant, choice_of({"yes"}), Preface::kNone);
  constraints.make("a", choice_of({"no"}), Preface::kNone);
  EXPECT_EQ(compiled, 3);
  EXPECT_EQ(found, 2);
  EXPECT_EQ(constraints.cache().entries(), 3u);
  mask_of(*constraints.make("a", choice_of({"no"}), Preface::kNone)->clone(), words().size);
  EXPECT_EQ(masked, 1);
}

// What is kept stays within its bytes, whoever asks; the largest tenant gives way first.
TEST(Constraints, WhatIsKeptIsBounded) {
  constexpr size_t kBytes = size_t{1} << 20;
  Constraints constraints(*words().tokenizer, {1}, words().size, {.kept_bytes = kBytes});
  constraints.make("small", choice_of({"yes"}), Preface::kNone);
  for (int i = 0; i < 600; ++i) {
    constraints.make("large", choice_of({std::to_string(i) + std::string(400, 'x')}), Preface::kNone);
    ASSERT_LE(constraints.cache().bytes(), kBytes);
  }
  EXPECT_LT(constraints.cache().entries(), 600u);
  EXPECT_GT(constraints.cache().entries(), 1u);
  int compiled = 0;
  constraints.report({.compiled = [&](double) { ++compiled; }, .masked = {}, .found = {}});
  constraints.make("small", choice_of({"yes"}), Preface::kNone);
  constraints.make("large", choice_of({"599" + std::string(400, 'x')}), Preface::kNone);
  EXPECT_EQ(compiled, 0);
  constraints.make("large", choice_of({"0" + std::string(400, 'x')}), Preface::kNone);
  EXPECT_EQ(compiled, 1);
}

// Beyond the room for grammars one is refused for now, and whoever has few is served still; a compile that may be large
// takes room before it begins, and gives it back however it ends.
TEST(Constraints, GrammarsHaveRoomByTenant) {
  constexpr size_t kMiB = size_t{1} << 20;
  Constraints constraints(*words().tokenizer, {1}, words().size,
                          {.kept_bytes = 8 * kMiB, .memory_bytes = 8 * kMiB, .compile_bytes = 6 * kMiB});
  const auto text = [](int i) { return std::to_string(i) + std::string(2000, 'x'); };
  std::vector<std::shared_ptr<const TokenConstraint>> in_use;
  const auto fill = [&] {
    for (int i = 0; i < 500; ++i) in_use.push_back(constraints.make("large", choice_of({text(i)}), Preface::kNone));
  };
  EXPECT_THROW(fill(), GrammarRoomError);
  EXPECT_GT(in_use.size(), 2u);
  EXPECT_LE(constraints.cache().memory().bytes(), 8 * kMiB);
  EXPECT_NO_THROW(constraints.make("small", choice_of({text(0)}), Preface::kNone));
  EXPECT_THROW(constraints.make("small", choice_of({text(1)}), Preface::kNone, {}, {}, {.reserve = true}),
               GrammarRoomError);
  in_use.clear();
  EXPECT_NO_THROW(constraints.make("small", choice_of({text(1)}), Preface::kNone, {}, {}, {.reserve = true}));
  const grammar::Source wrong{.language = Language::kRegex, .text = "(", .choices = {}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(constraints.make("large", wrong, Preface::kNone, {}, {}, {.reserve = true}), grammar::GrammarError);
  }
  EXPECT_LE(constraints.cache().memory().bytes("large"), constraints.cache().bytes());
}

TEST(Constraints, WhatIsRefusedSaysWhere) {
  Constraints constraints(*words().tokenizer, {1}, words().size);
  EXPECT_THROW(constraints.make("", {.language = Language::kRegex, .text = "(", .choices = {}}, Preface::kNone),
               grammar::GrammarError);
  EXPECT_EQ(constraints.cache().entries(), 0u);
}

// Tools "f", whose argument is a digit, and "g" without any, in the form of Hermes.
std::shared_ptr<const TokenConstraint> calls_of(Constraints& constraints, bool one = false, const char* form = "hermes",
                                                bool reasons = false) {
  const Json text = parse_json(
      R"({"tools": [{"name": "f", "schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}},
          "required": ["a"], "additionalProperties": false}},
          {"name": "g", "schema": {"type": "object", "additionalProperties": false}}]})",
      "tools");
  JsonObject source = text.get_object();
  source["form"] = form;
  source["one"] = one;
  CallSearch search{.starts = {}, .name_key = "name", .names = {"f", "g"}, .marks = {}, .one = one, .opened = {}};
  if (reasons) search.reasoning_open = "<think>", search.reasoning_close = "</think>";
  std::vector<std::string> relaxed = {"x"};
  const auto made = constraints.make_calls("", {.language = Language::kCalls, .text = to_json(source), .choices = {}},
                                           *find_call_form(form), std::move(search), {.relaxed = &relaxed});
  EXPECT_TRUE(relaxed.empty());
  return made;
}

// All may come but the token that holds a whole mark and goes on.
bool is_free(TokenConstraint& constraint) {
  for (Token token = 0; token < words().size; ++token) {
    if (!allows(constraint, token) && token != words().id("x<tool_call>z")) return false;
  }
  return true;
}

void write(TokenConstraint& constraint, std::string_view text) {
  for (const char c : text) {
    const Token token = words().id(std::string_view(&c, 1));
    ASSERT_TRUE(allows(constraint, token)) << c << " of " << text;
    constraint.advance(token);
  }
}

TEST(CallConstraint, TextIsFreeUntilTheMark) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto one = calls_of(constraints)->clone();
  EXPECT_TRUE(is_free(*one));
  write(*one, "Look: <tool, <tool_cal");
  write(*one, "l");
  // What would end the mark and go on otherwise may not come; what goes on as the grammar says may.
  EXPECT_FALSE(allows(*one, words().id(">z")));
  EXPECT_TRUE(allows(*one, words().id(">{")));
  EXPECT_TRUE(allows(*one, words().id("yes")));
  one->advance(words().id(">{"));
  EXPECT_FALSE(is_free(*one));
  EXPECT_FALSE(allows(*one, 1));
  write(*one, "\"name\":\"f\",\"arguments\":{\"a\":");
  EXPECT_FALSE(allows(*one, words().id("3")));
  EXPECT_TRUE(allows(*one, words().id("2")));
  write(*one, "2}}</tool_");
  // The end of the mark, alone or with text behind it.
  EXPECT_TRUE(allows(*one, words().id("call>")));
  write(*one, "call");
  EXPECT_TRUE(allows(*one, words().id(">z")));
  one->advance(words().id(">z"));
  EXPECT_TRUE(is_free(*one));
  EXPECT_FALSE(one->complete());
  one->rollback(1);
  EXPECT_FALSE(is_free(*one));
  write(*one, ">");
  EXPECT_TRUE(is_free(*one));
  write(*one, "and <tool_call>{");
  EXPECT_FALSE(is_free(*one));
}

TEST(CallConstraint, TakesBackWhatCrossedTheMark) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto one = calls_of(constraints)->clone();
  EXPECT_FALSE(allows(*one, words().id("x<tool_call>z")));  // a whole mark in one token
  write(*one, "a<tool_call");
  one->advance(words().id(">{"));
  write(*one, "\"name");
  one->rollback(6);
  EXPECT_TRUE(allows(*one, words().id("yes")));
  EXPECT_FALSE(allows(*one, words().id(">z")));
  const auto copy = one->clone();
  write(*copy, ">\n");
  EXPECT_FALSE(is_free(*copy));
  EXPECT_TRUE(allows(*one, words().id("yes")));
}

TEST(CallConstraint, OneCallEndsTheAnswer) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto one = calls_of(constraints, true)->clone();
  write(*one, "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call");
  EXPECT_FALSE(one->complete());
  EXPECT_FALSE(allows(*one, words().id(">z")));
  write(*one, ">");
  EXPECT_TRUE(one->complete());
}

TEST(CallConstraint, NothingIsSearchedForInReasoning) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto one = calls_of(constraints, false, "hermes", true)->clone();
  one->advance(words().id("<think>"));
  write(*one, "a <tool_call>{");
  EXPECT_TRUE(is_free(*one));
  one->advance(words().id("</think>"));
  write(*one, "<tool_call>{");
  EXPECT_FALSE(is_free(*one));
}

// What the prompt has written of a call is not asked for again.
TEST(Constraints, ThePromptMayHaveBegunTheText) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto one = constraints.make("", choice_of({"yes", "yell"}), Preface::kNone, {}, {}, {}, "ye")->clone();
  EXPECT_FALSE(allows(*one, words().id("y")));
  EXPECT_TRUE(allows(*one, words().id("l")));
  write(*one, "s");
  EXPECT_TRUE(one->complete());
  EXPECT_THROW(constraints.make("", choice_of({"yes"}), Preface::kNone, {}, {}, {}, "no"), grammar::GrammarError);
}

// An object that names a tool at the beginning of the answer is a call; any other is text.
TEST(CallConstraint, ABareObjectIsACallOnceItNamesATool) {
  Constraints constraints(*words().tokenizer, {1, 2}, words().size);
  const auto text = calls_of(constraints, false, "llama3")->clone();
  write(*text, "{\"names\": 1}");
  EXPECT_TRUE(is_free(*text));
  const auto other = calls_of(constraints, false, "llama3")->clone();
  write(*other, "{\"name\": \"h\", \"x\": 1}");
  EXPECT_TRUE(is_free(*other));
  const auto call = calls_of(constraints, false, "llama3")->clone();
  write(*call, " {\"name\": \"f\"");
  EXPECT_FALSE(is_free(*call));
  write(*call, ", \"parameters\": {\"a\": ");
  EXPECT_FALSE(allows(*call, words().id("3")));
}

}  // namespace
}  // namespace ingot
