// ingot eval task: multiple choice by the log-likelihood of each choice after the question.
#include <CLI/CLI.hpp>

#include "cli/engine_options.h"
#include "cli/eval/eval.h"
#include "cli/session.h"
#include "compress/task_scoring.h"
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

int run(const Options& options) {
  const std::vector<TaskItem> items = read_questions(options.task, options.data, options.limit);
  const std::string path = resolve_model(options.model);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(path);
  const Task task = tokenized_task(options.task, items, *tokenizer);
  OpenEngine open = open_engine(path, options.open);
  const TaskScore score = score_task(*open.engine, task, [](size_t) {});
  if (options.common.json) {
    fmt::print("{}\n", to_json(task_json(options.task, score)));
  } else {
    fmt::print("{}: accuracy {:.4f} ± {:.4f}, by bytes {:.4f} ± {:.4f}, {} questions\n", options.task, score.accuracy(),
               score.error_of(score.accuracy()), score.accuracy_normalized(),
               score.error_of(score.accuracy_normalized()), score.n);
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
