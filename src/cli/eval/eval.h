// The parts of `ingot eval`: each adds its subcommand to the app and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "compress/task_scoring.h"
#include "files/json.h"

namespace ingot {

CommandBody setup_eval_logits(CLI::App& app);
CommandBody setup_eval_ppl(CLI::App& app);
CommandBody setup_eval_task(CLI::App& app);
CommandBody setup_eval_compare(CLI::App& app);

// Reads the file of a task: lines of JSON {query, choices, gold}, or HellaSwag's blocks of six lines. A name that ends
// in .bz2 or .xz is unpacked by that program. Throws Error naming the line.
std::vector<TaskItem> read_task(const std::string& path);

// The first `limit` questions (0: all) of that file. Throws Error also where no task has this name, and where the file
// holds no question.
std::vector<TaskItem> read_questions(const std::string& task, const std::string& path, int limit);

// {task, accuracy, accuracy_error, accuracy_norm, accuracy_norm_error, n}
JsonObject task_json(const std::string& name, const TaskScore& score);

}  // namespace ingot
