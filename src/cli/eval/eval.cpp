// ingot eval logits | ppl | task | compare: numbers to compare with other engines.
#include "cli/eval/eval.h"

#include <CLI/CLI.hpp>
#include <array>

namespace ingot {
namespace {

constexpr Command kLogits = {"logits", "Logits of given token ids", "ingot eval logits model.gguf --ids 1,15043",
                             setup_eval_logits};
constexpr Command kPpl = {"ppl", "Perplexity of a text", "ingot eval ppl model.gguf --text wiki.test.raw --chunks 40",
                          setup_eval_ppl};
constexpr Command kTask = {"task", "Accuracy on a multiple-choice task",
                           "ingot eval task model.gguf --task arc_easy --data arc_easy.jsonl", setup_eval_task};
constexpr Command kCompare = {"compare", "What compression cost: models beside the one they were made of",
                              "ingot eval compare model-bf16 model-q4_k_m.gguf model-q3_k_m.gguf --text wiki.test.raw "
                              "--chunks 40 --html report.html",
                              setup_eval_compare};
constexpr std::array kParts = {&kLogits, &kPpl, &kTask, &kCompare};

CommandBody setup(CLI::App& app) { return add_subcommands(app, kParts); }

}  // namespace

const Command kEvalCommand = {
    "eval", "Measure a model: logits, perplexity, tasks, what compression cost",
    "ingot eval logits model.gguf --ids 1,15043\n"
    "  ingot eval ppl model.gguf --text wiki.test.raw --chunks 40\n"
    "  ingot eval task model.gguf --task arc_easy --data arc_easy.jsonl\n"
    "  ingot eval compare model-bf16 model-q4_k_m.gguf --text wiki.test.raw --html report.html",
    setup};

}  // namespace ingot
