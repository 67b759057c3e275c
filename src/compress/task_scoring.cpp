#include "compress/task_scoring.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compress/scoring.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

// A choice's tokens are those of the whole text after the question's own: the border may merge differently, so the
// common prefix of both is taken as the question.
Task::Choice tokenized_choice(const Tokenizer& tokenizer, const std::vector<int32_t>& question, const std::string& text,
                              size_t bytes) {
  Task::Choice choice{.tokens = tokenizer.encode(text, {.add_special = true}), .bytes = bytes};
  const std::vector<int32_t>& whole = choice.tokens;
  if (whole.size() < 2) throw Error("[eval] a choice has no tokens");
  size_t shared = 0;
  while (shared < question.size() && shared < whole.size() && question[shared] == whole[shared]) ++shared;
  choice.from = static_cast<int>(std::min(std::max<size_t>(shared, 1), whole.size() - 1));
  return choice;
}

int best(const std::vector<double>& values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

int Task::longest() const {
  size_t most = 0;
  for (const Question& question : questions)
    for (const Choice& choice : question.choices) most = std::max(most, choice.tokens.size());
  return static_cast<int>(most);
}

std::string task_joint(const std::string& name) {
  if (name == "arc_easy" || name == "arc_challenge") return "\nAnswer: ";
  if (name == "piqa") return "Answer: ";
  if (name == "hellaswag" || name == "openbook_qa") return " ";
  throw Error("[eval] task '{}' is unknown; known are arc_challenge, arc_easy, hellaswag, openbook_qa, piqa", name);
}

Task tokenized_task(const std::string& name, std::span<const TaskItem> items, const Tokenizer& tokenizer) {
  const std::string between = task_joint(name);
  Task task{.name = name, .questions = {}};
  for (const TaskItem& item : items) {
    // The blank belongs to the choice: byte-level tokens carry the blank before a word.
    const std::string joined = item.query + between;
    const std::string query = joined.substr(0, joined.find_last_not_of(' ') + 1);
    const std::vector<int32_t> tokens = tokenizer.encode(query, {.add_special = true});
    Task::Question question{.choices = {}, .gold = item.gold};
    for (const std::string& choice : item.choices)
      question.choices.push_back(tokenized_choice(tokenizer, tokens, joined + choice, choice.size()));
    task.questions.push_back(std::move(question));
  }
  return task;
}

double TaskScore::error_of(double share) const { return std::sqrt(share * (1 - share) / static_cast<double>(n)); }

TaskScore score_task(Engine& engine, const Task& task, const std::function<void(size_t done)>& progress) {
  TaskScore score;
  for (const Task::Question& question : task.questions) {
    std::vector<double> plain, normalized;
    for (const Task::Choice& choice : question.choices) {
      const auto end = static_cast<int>(choice.tokens.size());
      plain.push_back(-negative_log_likelihood(engine, choice.tokens, choice.from, end));
      normalized.push_back(plain.back() / static_cast<double>(std::max<size_t>(choice.bytes, 1)));
    }
    score.right += best(plain) == question.gold;
    score.right_normalized += best(normalized) == question.gold;
    progress(static_cast<size_t>(++score.n));
  }
  return score;
}

}  // namespace ingot
