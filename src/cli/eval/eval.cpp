// ingot eval logits | ppl | task: numbers to compare with other engines.
#include "cli/eval/eval.h"

#include <CLI/CLI.hpp>
#include <array>
#include <memory>

namespace ingot {
namespace {

CommandBody setup(CLI::App& app) {
  app.require_subcommand(1);
  struct Part {
    CLI::App* app;
    CommandBody body;
  };
  auto parts = std::make_shared<std::array<Part, 3>>();
  const auto add = [&](size_t i, const char* name, const char* summary, CommandBody (*make)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, summary);
    (*parts)[i] = {sub, make(*sub)};
  };
  add(0, "logits", "Logits of given token ids", setup_eval_logits);
  add(1, "ppl", "Perplexity of a text", setup_eval_ppl);
  add(2, "task", "Accuracy on a multiple-choice task", setup_eval_task);
  return [parts] {
    for (const Part& part : *parts) {
      if (part.app->parsed()) return part.body();
    }
    return 2;
  };
}

}  // namespace

const Command kEvalCommand = {"eval", "Measure a model: logits, perplexity, tasks",
                              "ingot eval logits model.gguf --ids 1,15043\n"
                              "ingot eval ppl model.gguf --text wiki.test.raw --chunks 40\n"
                              "ingot eval task model.gguf --task arc_easy --data arc_easy.jsonl",
                              setup};

}  // namespace ingot
