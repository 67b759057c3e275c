#include "compress/task_scoring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/data_test_support.h"
#include "base/error.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

std::string stories() { return committed_data("models/stories260K/stories260K.gguf"); }

const std::vector<TaskItem> kItems = {
    {.query = "Once upon a time", .choices = {"there was a girl", "zq xj w9 kk"}, .gold = 0},
    {.query = "Once upon a time", .choices = {"there was a girl", "zq xj w9 kk"}, .gold = 1},
    {.query = "The sun was", .choices = {"9Q", "shining", "#%"}, .gold = 1}};

TEST(TaskScoring, AChoiceIsWhatFollowsTheQuestion) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(stories());
  const Task task = tokenized_task("arc_easy", kItems, *tokenizer);
  EXPECT_EQ(task.name, "arc_easy");
  ASSERT_EQ(task.questions.size(), 3u);
  EXPECT_EQ(task.questions[1].gold, 1);
  size_t longest = 0;
  for (size_t q = 0; q < kItems.size(); ++q) {
    // The blank before the choice is the choice's.
    const std::vector<int32_t> question = tokenizer->encode(kItems[q].query + "\nAnswer:", {.add_special = true});
    ASSERT_EQ(task.questions[q].choices.size(), kItems[q].choices.size());
    for (size_t c = 0; c < kItems[q].choices.size(); ++c) {
      const Task::Choice& choice = task.questions[q].choices[c];
      EXPECT_EQ(choice.tokens,
                tokenizer->encode(kItems[q].query + "\nAnswer: " + kItems[q].choices[c], {.add_special = true}));
      EXPECT_EQ(choice.from, static_cast<int>(question.size()));
      EXPECT_EQ(choice.bytes, kItems[q].choices[c].size());
      longest = std::max(longest, choice.tokens.size());
    }
  }
  EXPECT_EQ(task.longest(), static_cast<int>(longest));
}

TEST(TaskScoring, UnknownTasksAreNamed) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(stories());
  try {
    tokenized_task("sums", kItems, *tokenizer);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'sums' is unknown; known are arc_challenge"), std::string::npos);
  }
}

TEST(TaskScoring, TheLikeliestChoiceIsTheAnswer) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(stories());
  const OpenEngine open =
      open_engine(stories(), {.device = "cpu", .kv = "f32", .model = {.context = 64}, .engine = {.threads = 1}});
  std::vector<size_t> done;
  const TaskScore score = score_task(*open.engine, tokenized_task("hellaswag", kItems, *tokenizer),
                                     [&](size_t questions) { done.push_back(questions); });
  EXPECT_EQ(done, (std::vector<size_t>{1, 2, 3}));
  EXPECT_EQ(score.n, 3);
  EXPECT_EQ(score.right, 2);
  EXPECT_EQ(score.right_normalized, 2);
  EXPECT_DOUBLE_EQ(score.accuracy(), 2.0 / 3);
  EXPECT_NEAR(score.error_of(score.accuracy()), std::sqrt(2.0 / 27), 1e-12);
  EXPECT_EQ(score.error_of(1), 0);
}

}  // namespace
}  // namespace ingot
