// How a command of the program is written. One file of src/cli holds one command:
//
//   // ingot rm NAME: removes a model from the cache.
//   namespace ingot {
//   namespace {
//   struct Options {
//     std::string name;
//     CommonOptions common;
//   };
//   int run(const Options& options) { …; return 0; }
//   CommandBody setup(CLI::App& app) {
//     auto options = std::make_shared<Options>();  // the parser writes into it, the body reads it
//     app.add_option("NAME", options->name, "A model of the cache")->required();
//     add_json_option(app, options->common);
//     return [options] { return run(*options); };
//   }
//   }  // namespace
//   const Command kRmCommand = {"rm", "Remove a model from the cache", "ingot rm org/name", setup};
//   }  // namespace ingot
//
// and has one `extern` line below and one line in the list of main.cpp. Each command is parsed by a
// CLI::App of its own, so a prompt that equals a command's name stays a prompt. A subcommand (`eval ppl`, `bench ops`)
// is written in the same way, in one file; add_subcommands() hangs it under its command.
//
// A body returns the exit status. It throws Error for a bad model, file or request (one line
// `ingot: …`, exit 1), CLI::ValidationError for wrong usage that only the body can see (one line,
// exit 2), and Interrupted (interrupt.h) when Ctrl-C stopped it (exit 130). Results go to stdout, all else to stderr.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ingot {

// Runs the command after its arguments were parsed; returns the exit status.
using CommandBody = std::function<int()>;

struct Command {
  const char* name;                 // one word, as typed
  const char* summary;              // one line of `ingot --help`
  const char* example;              // shown under the options of `ingot NAME --help`; may have several lines
  CommandBody (*setup)(CLI::App&);  // adds the options and returns the body
  // Turns arguments as an earlier release took them into today's, and says so on stderr; none: there are none.
  void (*modernize)(const CLI::App& app, std::vector<std::string>& args) = nullptr;
};

// Adds each of `parts` as a subcommand. The body runs the one that was named, or `otherwise` where none was; without
// `otherwise` one must be named. Options of the command itself do not go with a subcommand: wrong usage.
CommandBody add_subcommands(CLI::App& app, std::span<const Command* const> parts, CommandBody otherwise = {});

// Options that mean the same in every command.
struct CommonOptions {
  bool verbose = false;
  bool json = false;  // one JSON document on stdout
};

void add_verbose_option(CLI::App& app, CommonOptions& options);
void add_json_option(CLI::App& app, CommonOptions& options);

extern const Command kRunCommand, kChatCommand, kBenchCommand, kInspectCommand, kTokenizeCommand, kDetokenizeCommand,
    kTemplateCommand, kEvalCommand, kPullCommand, kLsCommand, kRmCommand, kServeCommand, kQuantizeCommand,
    kCalibrateCommand, kReportCommand, kDevicesCommand;

// Flushes stdout and returns `status`, or 1 with a line on stderr where success could not be written.
int finish_output(int status);

// Parses argv[1…] with the command's options and runs it. All errors become one line on stderr and
// an exit status: 0 success or --help, 1 Error, 2 wrong usage, 130 interrupted. `argv[0]` is the command's name.
int run_command(const Command& command, int argc, const char* const* argv);

}  // namespace ingot
