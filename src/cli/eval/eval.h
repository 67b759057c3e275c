// The parts of `ingot eval`: each adds its subcommand to the app and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command.h"

namespace ingot {

CommandBody setup_eval_logits(CLI::App& app);
CommandBody setup_eval_ppl(CLI::App& app);
CommandBody setup_eval_task(CLI::App& app);
CommandBody setup_eval_compare(CLI::App& app);

// One question with its possible answers.
struct TaskItem {
  std::string query;
  std::vector<std::string> choices;
  int gold = 0;
};

// Reads the file of a task: lines of JSON {query, choices, gold}, or HellaSwag's blocks of six lines. A name that ends
// in .bz2 or .xz is unpacked by that program. Throws Error naming the line.
std::vector<TaskItem> read_task(const std::string& path);

}  // namespace ingot
