#include "serve/api/token_work.h"

#include <gtest/gtest.h>

#include <string>

#include "serve/api/generation.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

std::string words(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += "word" + std::to_string(i) + " ";
  return text;
}

struct Fixture {
  Fixture() {
    tenant = std::make_shared<Tenant>("a", TenantRights{}, book.of("a"), [] { return 0.0; });
    caller = std::make_shared<Caller>(std::shared_ptr<ApiKey>(new ApiKey{.tenant = tenant}), CallFacts{});
  }
  int64_t paid() {
    caller->settle(CallEnd::kError, 400);
    return tenant->use().read().tokenizer_tokens;
  }
  UsageBook book;
  std::shared_ptr<Tenant> tenant;
  std::shared_ptr<Caller> caller;
  std::shared_ptr<TestResponder> responder = std::make_shared<TestResponder>();
};

TEST(TokenWork, PausesDoNotChangeTokens) {
  const auto tokenizer = toy_tokenizer();
  for (const std::string& text : {words(400'000), std::string(300'000, 'a'), std::string("short")}) {
    std::vector<size_t> pauses;
    const EncodePause pause = [&](size_t tokens) { pauses.push_back(tokens); };
    EXPECT_EQ(tokenizer->encode(text, {.pause = &pause}), tokenizer->encode(text));
    EXPECT_TRUE(std::ranges::is_sorted(pauses));
    if (text.find(' ') != text.npos) {
      EXPECT_GE(pauses.size(), 4u);
    }
  }
}

TEST(TokenWork, EndsWhereTheClientHasGoneAndWasPaidUpToThere) {
  Fixture f;
  TokenWork work(f.caller, f.responder);
  const auto tokenizer = toy_tokenizer();
  const std::string text = words(400'000);
  int pauses = 0;
  const auto encode = [&](const EncodePause& pause) {
    const EncodePause leaving = [&](size_t tokens) {
      if (++pauses == 2) f.responder->close();
      pause(tokens);
    };
    return tokenizer->encode(text, {.pause = &leaving});
  };
  EXPECT_THROW(work.run(text.size(), encode), ApiError);
  EXPECT_EQ(pauses, 2);
  const int64_t paid = f.paid();
  EXPECT_GT(paid, 50'000);
  EXPECT_LT(paid, 300'000);
}

TEST(TokenWork, ATextThatTheTokenizerGivesUpOnIsPaidByItsBytes) {
  Fixture f;
  TokenWork work(f.caller, f.responder);
  EXPECT_THROW(work.run(4000, [](const EncodePause&) -> std::vector<Token> { throw Error("[test] no"); }), Error);
  EXPECT_EQ(f.paid(), 1001);
}

// Half a million steps for a few bytes, time and again, would be nobody's.
TEST(TokenWork, ATemplateThatRunsOutOfItsBudgetIsPaidByItsSteps) {
  ServedModel model;
  const auto tokenizer = toy_tokenizer();
  model.tokenizer = tokenizer.get();
  model.context = 256;
  model.source.text =
      "{% for m in messages %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
      "{% endfor %}{% endfor %}";
  model.chat = std::make_shared<ChatTemplate>(ChatTemplate::parse(model.source.text));
  const Json body = parse_json(R"({"messages": [{"role": "user", "content": "a"}]})", "test");
  Fixture f;
  TokenWork work(f.caller, f.responder);
  EXPECT_THROW(read_chat(body.get_object(), model, &work), ApiError);
  const int64_t paid = f.paid();
  EXPECT_GT(paid, 500'000 / TokenWork::kStepsPerToken);
  EXPECT_LT(paid, 1'000'000 / TokenWork::kStepsPerToken);
}

TEST(TokenWork, ATemplateThatWritesLittleIsPaidByItsStepsToo) {
  ServedModel model;
  const auto tokenizer = toy_tokenizer();
  model.tokenizer = tokenizer.get();
  model.context = 256;
  model.source.text = "{% for i in range(100) %}{% for j in range(1000) %}{% endfor %}{% endfor %}a";
  model.chat = std::make_shared<ChatTemplate>(ChatTemplate::parse(model.source.text));
  const Json body = parse_json(R"({"messages": [{"role": "user", "content": "a"}]})", "test");
  Fixture f;
  TokenWork work(f.caller, f.responder);
  read_chat(body.get_object(), model, &work);
  EXPECT_GT(f.paid(), 100'000 / TokenWork::kStepsPerToken);
}

TEST(TokenWork, ATemplateEndsWhereTheClientHasGoneAndWasPaidUpToThere) {
  ServedModel model;
  const auto tokenizer = toy_tokenizer();
  model.tokenizer = tokenizer.get();
  model.context = 256;
  model.source.text = "{% for i in range(100) %}{% for j in range(4000) %}{% endfor %}{% endfor %}a";
  model.chat = std::make_shared<ChatTemplate>(ChatTemplate::parse(model.source.text));
  const Json body = parse_json(R"({"messages": [{"role": "user", "content": "a"}]})", "test");
  Fixture f;
  TokenWork work(f.caller, f.responder);
  f.responder->close();
  EXPECT_THROW(read_chat(body.get_object(), model, &work), ApiError);
  const int64_t paid = f.paid();
  EXPECT_GT(paid, 10'000 / TokenWork::kStepsPerToken);
  EXPECT_LT(paid, 100'000 / TokenWork::kStepsPerToken);
}

}  // namespace
}  // namespace ingot
