// Multiple-choice tasks by the log-likelihood of each choice after its question.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/open_engine.h"

namespace ingot {

class Tokenizer;

// One question with its possible answers.
struct TaskItem {
  std::string query;
  std::vector<std::string> choices;
  int gold = 0;  // the right one
};

// A task as models read it.
struct Task {
  struct Choice {
    std::vector<int32_t> tokens;  // the question's and its own
    int from = 0;                 // the first of its own, at least 1
    size_t bytes = 0;             // of its text
  };
  struct Question {
    std::vector<Choice> choices;
    int gold = 0;
  };

  std::string name;
  std::vector<Question> questions;

  int longest() const;  // tokens
};

// What stands between question and answer in the usual form of the task. Throws Error where the name is unknown, which
// lists those that are known.
std::string task_joint(const std::string& name);

// Throws Error as task_joint does, and where a choice has no tokens.
Task tokenized_task(const std::string& name, std::span<const TaskItem> items, const Tokenizer& tokenizer);

struct TaskScore {
  int64_t n = 0;                 // questions
  int64_t right = 0;             // the likeliest choice is the right one
  int64_t right_normalized = 0;  // the likeliest for its bytes is

  double accuracy() const { return static_cast<double>(right) / static_cast<double>(n); }
  double accuracy_normalized() const { return static_cast<double>(right_normalized) / static_cast<double>(n); }
  // The standard error of such a share of n questions: √(p · (1 − p) / n).
  double error_of(double share) const;
};
// `progress` is called after each question with those done; what it throws ends the work. Throws Error where the
// engine refuses a question. REQUIRES: the task has a question.
TaskScore score_task(Engine& engine, const Task& task, const std::function<void(size_t done)>& progress);

}  // namespace ingot
