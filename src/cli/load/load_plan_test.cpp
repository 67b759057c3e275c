#include "cli/load/load_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"

namespace ingot {
namespace {

std::string content(const LoadPlan& plan, size_t index) {
  const Json body = parse_json(plan.body(index), "body");
  return std::string(body.at("messages").at(0).at("content").as_string());
}

ptrdiff_t words(const std::string& text) { return text.empty() ? 0 : std::ranges::count(text, ' ') + 1; }

TEST(LoadPlan, ClosedLoop) {
  const LoadPlan plan({.concurrency = 4, .prompt_tokens = 30, .gen_tokens = 9, .shared_words = 5, .model = "m"});
  EXPECT_STREQ(plan.mode_name(), "closed");
  EXPECT_EQ(plan.requests(), 40u);
  std::set<std::string> all;
  const std::string first = content(plan, 0);
  size_t shared = 0;
  for (int spaces = 0; spaces < 5; ++shared) spaces += first[shared] == ' ';
  for (size_t i = 0; i < 40; ++i) {
    const std::string text = content(plan, i);
    EXPECT_EQ(words(text), 35);
    EXPECT_EQ(text.substr(0, shared), first.substr(0, shared));
    EXPECT_TRUE(all.insert(text.substr(shared)).second);
    EXPECT_EQ(plan.cancel(i).pieces + plan.cancel(i).ms, 0);
  }
  EXPECT_EQ(content(LoadPlan({.prompt_tokens = 30, .shared_words = 5}), 7), content(plan, 7));
  EXPECT_NE(content(LoadPlan({.prompt_tokens = 30, .shared_words = 5, .seed = 2}), 7), content(plan, 7));
}

TEST(LoadPlan, BodyOfCompletionsWithFields) {
  LoadOptions options{.requests = 1, .prompt_tokens = 3, .gen_tokens = 9, .prompt_ids = 10, .chat = false};
  options.model = "m";
  options.ignore_eos = true;
  options.fields = {{"temperature", 0.5}, {"user", "u"}};
  const Json body = parse_json(LoadPlan(options).body(0), "body");
  EXPECT_EQ(body.at("max_tokens").to_number<int>(), 9);
  EXPECT_EQ(body.at("model").as_string(), "m");
  EXPECT_EQ(body.at("temperature").as_double(), 0.5);
  EXPECT_EQ(body.at("user").as_string(), "u");
  EXPECT_TRUE(body.at("ignore_eos").as_bool());
  EXPECT_TRUE(body.at("stream").as_bool());
  ASSERT_EQ(body.at("prompt").as_array().size(), 3u);
  for (const Json& id : body.at("prompt").as_array()) EXPECT_LT(id.to_number<int>(), 10);
  options.chat = true;
  EXPECT_THROW(LoadPlan{options}, Error);
}

TEST(LoadPlan, OpenLoopIsPoisson) {
  const LoadPlan plan({.rate = 50, .requests = 5000});
  ASSERT_EQ(plan.requests(), 5000u);
  EXPECT_EQ(plan.due(0), 0);
  double above = 0;
  for (size_t i = 1; i < 5000; ++i) {
    const double gap = plan.due(i) - plan.due(i - 1);
    EXPECT_GE(gap, 0);
    above += gap > 0.02;  // the mean: exp(-1) of the gaps are longer
  }
  EXPECT_NEAR(plan.due(4999), 100, 8);
  EXPECT_NEAR(above / 5000, 0.368, 0.03);
  EXPECT_EQ(LoadPlan({.rate = 50}).requests(), 100u);
  const LoadPlan timed({.rate = 50, .duration = 10});
  EXPECT_NEAR(static_cast<double>(timed.requests()), 500, 120);
  EXPECT_LE(timed.due(timed.requests() - 1), 10);
}

TEST(LoadPlan, TraceWithScales) {
  const std::string file = testing::TempDir() + "/load_plan_test_" + std::to_string(::getpid());
  std::ofstream(file) << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,320,44\n"
                         "2023-11-16 18:15:52.0,64,16\n2023-11-16 18:16:52.0,64,16\n";
  const LoadPlan plan({.trace = file, .scale = {.length = 16, .time = 6}});
  ASSERT_EQ(plan.requests(), 3u);
  EXPECT_DOUBLE_EQ(plan.due(1), 1);
  EXPECT_EQ(words(content(plan, 0)), 20);
  EXPECT_EQ(parse_json(plan.body(0), "body").at("max_tokens").to_number<int>(), 2);
  EXPECT_EQ(LoadPlan({.trace = file, .requests = 2}).requests(), 2u);
  EXPECT_EQ(LoadPlan({.trace = file, .duration = 2}).requests(), 2u);
  std::filesystem::remove(file);
}

TEST(LoadPlan, Cancels) {
  const LoadPlan plan({.requests = 10000, .gen_tokens = 64, .cancel_percent = 10});
  int pieces = 0, timed = 0;
  for (size_t i = 0; i < 10000; ++i) {
    const LoadCancel cancel = plan.cancel(i);
    EXPECT_FALSE(cancel.pieces > 0 && cancel.ms > 0);
    EXPECT_LT(cancel.pieces, 64);
    pieces += cancel.pieces > 0;
    timed += cancel.ms > 0;
  }
  EXPECT_NEAR(pieces, 500, 150);
  EXPECT_NEAR(timed, 500, 150);
}

}  // namespace
}  // namespace ingot
