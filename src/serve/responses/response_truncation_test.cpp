// truncation: auto leaves out the oldest turns, and finds how many of them without rendering the conversation often.
#include <gtest/gtest.h>

#include <string>

#include "serve/api/token_work.h"
#include "serve/responses/response_request.h"
#include "serve/serving_test_support.h"

namespace ingot {
namespace {

class ResponseTruncation : public testing::Test {
 protected:
  ResponseTruncation() {
    tokenizer_ = toy_tokenizer();
    model_.tokenizer = tokenizer_.get();
    model_.source.text = "{{ tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}";
    model_.chat = std::make_shared<ChatTemplate>(ChatTemplate::parse(model_.source.text));
  }

  struct Cut {
    size_t tokens = 0;  // of the prompt
    int64_t paid = 0;   // tokens that were cut for it, in all
  };
  // `text(i)`: of the turn i of `turns`.
  template <class Text>
  Cut cut(int turns, int context, Text text, const std::string& instructions = "") {
    JsonArray items;
    for (int i = 0; i < turns; ++i) {
      items.push_back(JsonObject{{"role", "user"}, {"content", text(i)}});
      items.push_back(JsonObject{{"role", "assistant"}, {"content", "yes"}});
    }
    items.push_back(JsonObject{{"role", "user"}, {"content", "last"}});
    const JsonObject body{
        {"input", items}, {"truncation", "auto"}, {"instructions", instructions}, {"max_output_tokens", 8}};
    model_.context = context;
    UsageBook book;
    const auto tenant = std::make_shared<Tenant>("a", TenantRights{}, book.of("a"), [] { return 0.0; });
    const auto caller = std::make_shared<Caller>(std::shared_ptr<ApiKey>(new ApiKey{.tenant = tenant}), CallFacts{});
    TokenWork work(caller, std::make_shared<TestResponder>());
    const ResponseRequest request = read_response(body, model_, context, {}, &work);
    caller->settle(CallEnd::kError, 400);
    return {.tokens = request.generation.prompts[0].size(), .paid = tenant->use().read().tokenizer_tokens};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ServedModel model_;
};

std::string same(int) { return "a question"; }

TEST_F(ResponseTruncation, FindsHowManyTurnsInAFewRenders) {
  const Cut whole = cut(1000, 1 << 20, same);
  EXPECT_EQ(whole.paid, static_cast<int64_t>(whole.tokens));  // one render, where all of it fits
  const size_t turn = (whole.tokens - cut(500, 1 << 20, same).tokens) / 500;
  for (const int percent : {3, 20, 50, 80, 99}) {
    const int context = static_cast<int>(whole.tokens) * percent / 100;
    const Cut found = cut(1000, context, same);
    EXPECT_LE(found.tokens + 8, static_cast<size_t>(context));
    EXPECT_GT(found.tokens + 8 + 2 * turn, static_cast<size_t>(context)) << percent << " %: two turns more would fit";
    // The whole, and two more that are as long as the room.
    EXPECT_LE(found.paid, static_cast<int64_t>(whole.tokens) + 2 * context) << percent << " %";
  }
}

// Turns that say little for their size, instructions that no turn takes along, and turns of very different lengths.
TEST_F(ResponseTruncation, UsesMostOfTheRoomWhateverTheTurnsAre) {
  const auto growing = [](int i) { return std::string(static_cast<size_t>(i), 'x'); };
  const auto shrinking = [](int i) { return std::string(static_cast<size_t>(400 - i), 'x'); };
  const auto uneven = [](int i) { return i % 40 == 0 ? std::string(1500, 'x') : std::string("y"); };
  const auto words = [](int i) { return i < 200 ? std::string(100, 'x') : std::string("the the the the the the"); };
  const auto check = [&](auto text, const std::string& instructions) {
    const auto whole = static_cast<int64_t>(cut(400, 1 << 20, text, instructions).tokens);
    const int context = static_cast<int>(whole * 6 / 10);
    const Cut found = cut(400, context, text, instructions);
    EXPECT_LE(found.tokens + 8, static_cast<size_t>(context));
    EXPECT_GE(found.tokens, static_cast<size_t>(context) * 7 / 10);
    EXPECT_LE(found.paid, 5 * whole);
  };
  for (const std::string& instructions : {std::string(), std::string(9000, 'i')}) {
    check(same, instructions);
    check(growing, instructions);
    check(shrinking, instructions);
    check(uneven, instructions);
    check(words, instructions);
  }
}

// Far more than the context: it is not even cut into tokens as a whole.
TEST_F(ResponseTruncation, AConversationOfManyContextsIsCutToOne) {
  const Cut found = cut(4000, 512, [](int) { return std::string(64, 'x'); });
  EXPECT_LE(found.tokens + 8, 512u);
  EXPECT_GE(found.tokens, 512u * 7 / 10);
  EXPECT_LE(found.paid, 100'000);
}

}  // namespace
}  // namespace ingot
