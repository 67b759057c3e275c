// The program: finds the command that argv[1] names and runs it. Commands are described in command.h.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "cli/command.h"

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
  return run_command(*command, argc - 1, argv + 1);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  try {
    return ingot::finish_output(ingot::run_program(argc, argv));
  } catch (const std::exception& e) {  // what run_command did not catch: memory that ran out while options were read
    const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    std::fputs(memory ? "ingot: out of memory\n" : "ingot: internal error\n", stderr);
    return 1;
  }
}
