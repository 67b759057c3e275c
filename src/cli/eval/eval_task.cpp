// ingot eval task: multiple choice by the log-likelihood of each choice after the question.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "cli/engine_options.h"
#include "cli/eval/eval.h"
#include "cli/session.h"
#include "compress/scoring.h"
#include "files/json.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

struct Options {
  std::string model;
  std::string task;
  std::string data;
  int limit = 0;
  OpenOptions open = {.kv = "f32"};
  CommonOptions common;
};

// What stands between the question and the answer in the usual form of the task.
std::string joint(const std::string& task) {
  if (task == "arc_easy" || task == "arc_challenge") return "\nAnswer: ";
  if (task == "piqa") return "Answer: ";
  if (task == "hellaswag" || task == "openbook_qa") return " ";
  throw Error("[eval] task '{}' is unknown; known are arc_challenge, arc_easy, hellaswag, openbook_qa, piqa", task);
}

struct Score {
  bool plain = false;       // the likeliest choice is the right one
  bool normalized = false;  // the likeliest for its bytes is
};

// A choice's tokens are those of the whole text after the question's own: the border may merge differently, so the
// common prefix of both is taken as the question.
double choice_likelihood(Engine& engine, const Tokenizer& tokenizer, const std::string& query,
                         const std::string& text) {
  const std::vector<int32_t> question = tokenizer.encode(query, {.add_special = true});
  const std::vector<int32_t> whole = tokenizer.encode(text, {.add_special = true});
  size_t shared = 0;
  while (shared < question.size() && shared < whole.size() && question[shared] == whole[shared]) ++shared;
  shared = std::min(std::max<size_t>(shared, 1), whole.size() - 1);
  if (whole.size() < 2) throw Error("[eval] a choice has no tokens");
  return -negative_log_likelihood(engine, whole, static_cast<int>(shared), static_cast<int>(whole.size()));
}

Score score(Engine& engine, const Tokenizer& tokenizer, const TaskItem& item, const std::string& between) {
  std::vector<double> plain, normalized;
  // The blank belongs to the choice: byte-level tokens carry the blank before a word.
  const std::string joined = item.query + between;
  const std::string query = joined.substr(0, joined.find_last_not_of(' ') + 1);
  for (const std::string& choice : item.choices) {
    const double likelihood = choice_likelihood(engine, tokenizer, query, joined + choice);
    plain.push_back(likelihood);
    normalized.push_back(likelihood / static_cast<double>(std::max<size_t>(choice.size(), 1)));
  }
  const auto best = [](const std::vector<double>& v) {
    return static_cast<int>(std::ranges::max_element(v) - v.begin());
  };
  return {.plain = best(plain) == item.gold, .normalized = best(normalized) == item.gold};
}

int run(const Options& options) {
  const std::string between = joint(options.task);
  std::vector<TaskItem> items = read_task(options.data);
  if (options.limit && items.size() > static_cast<size_t>(options.limit))
    items.resize(static_cast<size_t>(options.limit));
  if (items.empty()) throw Error("[eval] '{}' holds no question", options.data);
  const std::string path = resolve_model(options.model);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(path);
  OpenEngine open = open_engine(path, options.open);
  int right = 0, right_normalized = 0;
  for (const TaskItem& item : items) {
    const Score s = score(*open.engine, *tokenizer, item, between);
    right += s.plain;
    right_normalized += s.normalized;
  }
  const double n = static_cast<double>(items.size());
  if (options.common.json) {
    fmt::print("{}\n", to_json(JsonObject{{"task", options.task},
                                          {"accuracy", right / n},
                                          {"accuracy_norm", right_normalized / n},
                                          {"n", static_cast<int64_t>(items.size())}}));
  } else {
    fmt::print("{}: accuracy {:.4f}, by bytes {:.4f}, {} questions\n", options.task, right / n, right_normalized / n,
               items.size());
  }
  return 0;
}

}  // namespace

CommandBody setup_eval_task(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A GGUF file, a Hugging Face directory or a cached name");
  app.add_option("--task", options->task, "arc_challenge, arc_easy, hellaswag, openbook_qa or piqa")->required();
  app.add_option("--data", options->data, "The task's file")->required();
  app.add_option("--limit", options->limit, "Only the first N questions (0: all)")->check(CLI::Range(0, 1 << 30));
  add_engine_options(app, OptionsOf::kEngine, options->open);
  add_verbose_option(app, options->common);
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace ingot
