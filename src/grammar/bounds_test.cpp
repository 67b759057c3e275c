// What grammars cost others: steps that are counted and can be ended, bytes that are counted, tables that wear, masks
// that are shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "grammar/account.h"
#include "grammar/mask_store.h"
#include "grammar/matcher.h"
#include "grammar/matcher_test_support.h"

namespace ingot::grammar {
namespace {

Source schema(std::string text) { return {.language = Language::kJsonSchema, .text = std::move(text), .choices = {}}; }
Source choice(std::string text) { return {.language = Language::kChoice, .text = {}, .choices = {std::move(text)}}; }
Source regex(std::string text) { return {.language = Language::kRegex, .text = std::move(text), .choices = {}}; }

// Sources that take some time, each in a part of the compiler of its own.
std::vector<Source> dear_sources() {
  std::vector<Source> sources;
  Source choices{.language = Language::kChoice, .text = {}, .choices = {}};
  for (int i = 0; i < 3000; i++) choices.choices.push_back(std::to_string(i * 7919) + std::string(40, 'x'));
  sources.push_back(choices);
  std::string branches;
  for (int i = 0; i < 12; i++) {
    const char c = static_cast<char>('a' + i);
    branches += std::string(i > 0 ? "," : "") + R"({"type":"string","pattern":"^[a-z]{0,)" + std::to_string(20 + i) +
                "}" + c + R"([a-z]{0,20}$"})";
  }
  sources.push_back(schema(R"({"oneOf":[)" + branches + "]}"));
  std::string members;
  for (int i = 0; i < 300; i++)
    members += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer","minimum":3})";
  sources.push_back(schema(R"({"type":"object","properties":{)" + members + R"(},"maxProperties":20})"));
  std::string rules = "root ::= r0";
  for (int i = 0; i < 1000; i++)
    rules += "\nr" + std::to_string(i) + " ::= \"a\" [b-z]* | r" + std::to_string((i + 1) % 1000) + " \"c\"";
  sources.push_back({.language = Language::kGbnf, .text = rules, .choices = {}});
  return sources;
}

struct Stop {};

TEST(Meter, EveryCompileIsCountedAndCanBeEnded) {
  for (const Source& source : dear_sources()) {
    const std::string name = source.text.substr(0, 40);
    Meter free;
    Limits limits;
    limits.meter = &free;
    try {
      compile(source, small_vocabulary(), limits);
    } catch (const GrammarError&) {
      // Refused in the end: it has cost what it has.
    }
    EXPECT_GT(free.steps(), 5'000u) << name;
    // The same steps each time, and pauses all along.
    size_t last = 0, widest = 0, pauses = 0;
    Meter counted(
        [&](size_t steps) {
          widest = std::max(widest, steps - last);
          last = steps;
          pauses++;
        },
        500);
    limits.meter = &counted;
    try {
      compile(source, small_vocabulary(), limits);
    } catch (const GrammarError&) {
    }
    EXPECT_EQ(counted.steps(), free.steps()) << name;
    EXPECT_GE(pauses, free.steps() / 10'000) << name;
    EXPECT_LT(widest, 100'000u) << name;
    // It ends where it is told to, and no sooner or later.
    Meter ended(
        [](size_t steps) {
          if (steps > 2'000) throw Stop();
        },
        100);
    limits.meter = &ended;
    EXPECT_THROW(compile(source, small_vocabulary(), limits), Stop) << name;
    EXPECT_LT(ended.steps(), 100'000u) << name;
  }
}

struct Ledger : MemoryAccount {
  explicit Ledger(size_t limit) : most(limit) {}
  void change(size_t before, size_t now) override {
    if (now > before && bytes + now - before > most) throw LimitError("[grammar] no room");
    bytes += now - before;
  }
  const size_t most;
  std::atomic<size_t> bytes = 0;
};

TEST(Account, GrammarsAndMatchersAreCountedUntilTheyGo) {
  const auto account = std::make_shared<Ledger>(size_t{1} << 30);
  {
    const auto masks = std::make_shared<MaskStore>(size_t{1} << 20, account);
    const auto compiled = compile(choice(std::string(6000, 'a')), small_vocabulary(), {}, {masks, account});
    compiled->count();
    const size_t at_first = account->bytes;
    EXPECT_GE(at_first + (16 << 10), compiled->memory());
    {
      std::vector<std::unique_ptr<Matcher>> answers;
      Matcher first(compiled);
      for (int i = 0; i < 4; i++) answers.push_back(first.clone());
      for (auto& answer : answers) {
        for (int i = 0; i < 5000 && answer->advance('a'); i++) {
          if (i % 50 == 0) mask_of(*answer);
        }
      }
      EXPECT_GT(account->bytes, at_first);
      size_t held = compiled->memory() + masks->memory();
      for (auto& answer : answers) held += answer->memory();
      EXPECT_LT(account->bytes, held + 1);
      EXPECT_GT(account->bytes + 7 * (16 << 10), held);
    }
    EXPECT_LE(account->bytes, compiled->memory() + masks->memory() + (32 << 10));
  }
  EXPECT_EQ(account->bytes, 0u);
}

// A matcher for which there is no room fails; it is never let through unchecked.
TEST(Account, WithoutRoomAMatcherFails) {
  const auto account = std::make_shared<Ledger>(0);
  const auto compiled = compile(regex("[a-z]+"), small_vocabulary(), {}, {nullptr, account});
  Matcher matcher(compiled);
  std::vector<uint32_t> words(compiled->vocabulary().words());
  EXPECT_FALSE(matcher.mask(words));
  EXPECT_NE(matcher.failure().find("no room"), std::string::npos);
  EXPECT_TRUE(std::ranges::all_of(words, [](uint32_t word) { return word == 0; }));
}

// What one answer has needed of the shared tables is gone for the next: then it is time for new ones.
TEST(Wear, TablesThatAreHalfUsedAreTold) {
  const auto walk = [](const Compiled& of, Matcher& matcher, int steps) {
    std::vector<uint32_t> words(of.vocabulary().words());
    std::mt19937 random(5);
    for (int i = 0; i < steps && matcher.mask(words); i++) matcher.advance('a' + static_cast<int>(random() % 3));
  };
  const auto compiled = compile(regex("(a|b|c){0,300}(a[abc]{9}c){0,9}"), small_vocabulary(), {.states = 2000});
  EXPECT_FALSE(compiled->worn());
  Matcher matcher(compiled);
  walk(*compiled, matcher, 250);
  EXPECT_TRUE(compiled->worn() || !matcher.failed());
  const auto few = compile(regex("[abc]*a[abc]{12}c"), small_vocabulary(), {.states = 600});
  Matcher failing(few);
  walk(*few, failing, 500);
  EXPECT_TRUE(failing.failed());
  EXPECT_TRUE(few->worn());
  const auto small = compile(regex("[abc]*a[abc]{12}c"), small_vocabulary(), {.lexer_bytes = 300'000});
  EXPECT_FALSE(small->worn());
  Matcher large(small);
  walk(*small, large, 500);
  EXPECT_TRUE(large.failed());
  EXPECT_NE(large.failure().find("bytes"), std::string::npos) << large.failure();
  EXPECT_TRUE(small->worn());
  EXPECT_LT(small->memory(), 1'200'000u);
}

TEST(Limits, AGrammarThatIsTooLargeIsRefusedBeforeItIsUsed) {
  Source choices{.language = Language::kChoice, .text = {}, .choices = {}};
  for (int i = 0; i < 2000; i++)
    choices.choices.push_back(std::to_string(i * 7919 % 100'003) + "/" + std::to_string(i * i));
  EXPECT_THROW(compile(choices, small_vocabulary(), {.lexer_bytes = 100'000}), LimitError);
  EXPECT_THROW(compile(schema(R"({"properties":{"a":{"type":"string"},"b":{"type":"string"}}})"), small_vocabulary(),
                       {.set_bytes = 500}),
               LimitError);
}

// Nobody learns from the time that a mask takes what others have asked for: only JSON's own lexemes are everybody's.
TEST(SharedMasks, AreOfOneOwnerButForThoseOfJson) {
  const auto vocabulary = std::make_shared<const Vocabulary>(small_tokens(), std::vector<int32_t>{0});
  const auto use = [&](const Source& source, const std::shared_ptr<MaskStore>& masks) {
    Matcher matcher(compile(source, vocabulary, {}, {masks, nullptr}));
    for (const char c : std::string_view("{\"na")) {
      mask_of(matcher);
      if (!matcher.advance(static_cast<unsigned char>(c))) break;
    }
  };
  const auto a = std::make_shared<MaskStore>(size_t{1} << 20), b = std::make_shared<MaskStore>(size_t{1} << 20);
  for (const Source& source : {regex("\\{\"name\":[0-9]{3}\\}"), regex("\\{\"na[a-z]*\"\\}"),
                               schema(R"({"properties":{"name":{"const":"secret"}},"required":["name"],)"
                                      R"("additionalProperties":false})")}) {
    use(source, a);
  }
  EXPECT_GT(a->size(), 0u);
  EXPECT_EQ(b->size(), 0u);
  const size_t common = vocabulary->common_masks().size();
  const size_t own = a->size();
  use(regex("\\{\"name\":[0-9]{3}\\}"), b);
  EXPECT_EQ(vocabulary->common_masks().size(), common);  // a pattern is its owner's
  EXPECT_GT(b->size(), 0u);
  EXPECT_EQ(a->size(), own);
  // JSON mode has nothing that is anybody's own.
  const auto c = std::make_shared<MaskStore>(size_t{1} << 20);
  use({.language = Language::kJsonObject, .text = {}, .choices = {}}, c);
  EXPECT_EQ(c->size(), 0u);
  EXPECT_GT(vocabulary->common_masks().size(), 0u);
}

// Looks at the lexer are few, however long the text that must follow, and a look that is too dear fails nobody.
TEST(Forced, LooksAreBounded) {
  const std::string text(3000, 'a');
  Source one{.language = Language::kChoice, .text = {}, .choices = {text}};
  Matcher matcher(compile(one, small_vocabulary()));
  const std::string forced = matcher.forced(3000);
  EXPECT_TRUE(text.starts_with(forced));
  EXPECT_GE(forced.size(), 64u);
  Matcher poor(compile(one, small_vocabulary(), {.states = 40}));
  EXPECT_LT(poor.forced(3000).size(), 64u);
  EXPECT_FALSE(poor.failed());
}

}  // namespace
}  // namespace ingot::grammar
