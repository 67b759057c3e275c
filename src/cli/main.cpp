// The program: finds the command that argv[1] names and runs it. Commands are described in command.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/exact_reads.h"
#include "cli/command.h"
#include "comm/world.h"

namespace ingot {
namespace {

const std::array kCommands = {
    &kRunCommand,     &kChatCommand,    &kServeCommand, &kTokenizeCommand, &kDetokenizeCommand, &kTemplateCommand,
    &kBenchCommand,   &kInspectCommand, &kEvalCommand,  &kQuantizeCommand, &kCalibrateCommand,  &kReportCommand,
    &kDevicesCommand, &kPullCommand,    &kLsCommand,    &kRmCommand,
};

const Command* find_command(std::string_view name) {
  for (const Command* command : kCommands) {
    if (name == command->name) return command;
  }
  return nullptr;
}

int print_help() {
  fmt::print("Ingot runs large language models.\n\nUsage: ingot COMMAND [OPTIONS]\n\nCommands:\n");
  for (const Command* command : kCommands) fmt::print("  {:<12}{}\n", command->name, command->summary);
  fmt::print(
      "\nMODEL is a GGUF file, a Hugging Face directory or a name of the cache; left out, it is the\n"
      "default model. `ingot COMMAND --help` shows a command's options.\n\n"
      "Example:\n  ingot run \"Why is the sky blue?\"\n");
  return 0;
}

// Commands whose model may lie on several processes.
bool has_ranks(std::string_view name) {
  constexpr std::string_view kNames[] = {"run", "chat", "serve", "bench", "eval"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Rank 0 alone prints. Says whether the others were met.
bool join_world() {
  Launched launch;
  try {
    launch = launched();
    if (launch.rank > 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return false;
    if (World::join() != nullptr) read_exactly();
    return true;
  } catch (const Error& e) {
    // One line for all: rank 0 of the same machine has the same to say, and the launcher of another ends this one.
    if (launch.rank > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (launch.rank == 0 || !launch.one_machine) fmt::print(stderr, "ingot: {}\n", e.what());
    return false;
  }
}

int run_program(int argc, const char* const* argv) {
  if (argc < 2) return print_help();
  std::string_view name = argv[1];
  if (name == "--version" || name == "version") {
    fmt::print("ingot {}\n", INGOT_VERSION);
    return 0;
  }
  if (name == "--help" || name == "-h" || (name == "help" && argc == 2)) return print_help();
  const bool help = name == "help";
  if (help) name = argv[2];
  const Command* command = find_command(name);
  if (command == nullptr) {
    fmt::print(stderr, "ingot: no command '{}' (see ingot --help)\n", name);
    return 2;
  }
  if (help) {
    const std::array<const char*, 2> help_args = {command->name, "--help"};
    return run_command(*command, 2, help_args.data());
  }
  if (has_ranks(name) && !join_world()) return 1;
  return run_command(*command, argc - 1, argv + 1);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  try {
    const int status = ingot::finish_output(ingot::run_program(argc, argv));
    if (ingot::World* const world = ingot::World::joined()) world->leave(status);
    return status;
  } catch (const std::exception& e) {  // what run_command did not catch: memory that ran out while options were read
    const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    std::fputs(memory ? "ingot: out of memory\n" : "ingot: internal error\n", stderr);
    return 1;
  }
}
