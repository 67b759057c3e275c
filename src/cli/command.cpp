#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/help_formatter.h"
#include "cli/interrupt.h"
#include "comm/world.h"

namespace ingot {

namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells report it

// Prints `ingot: message` as one line whatever the message holds: names out of files may carry
// line breaks or escape sequences that a terminal would obey.
void print_error(std::string_view message) {
  std::string line;
  for (char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (World* const world = World::joined(); world != nullptr && world->tell(line)) return;
  fmt::print(stderr, "ingot: {}\n", line);
}

std::string example_text(const Command& command) { return fmt::format("Example:\n  {}", command.example); }

// Sends to the help of the subcommand where one was named.
int wrong_usage(const CLI::App& app, const Command& command, const CLI::ParseError& e) {
  std::string name = command.name;
  for (const CLI::App* part : app.get_subcommands()) name += " " + part->get_name();
  print_error(fmt::format("{}: {} (see ingot {} --help)", name, e.what(), name));
  return kExitUsage;
}

int run_body(const CLI::App& app, const Command& command, const CommandBody& body) {
  try {
    return body();
  } catch (const RankEnded&) {
    return 0;
  } catch (const CLI::ParseError& e) {
    return wrong_usage(app, command, e);
  } catch (const Interrupted&) {
    print_error("interrupted");
    return kExitInterrupted;
  } catch (const Error& e) {
    print_error(e.what());
  } catch (const std::system_error& e) {  // of printing: fmt's word for a full disk or a closed pipe
    print_error(e.what());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& e) {
    print_error(fmt::format("internal error: {}", e.what()));
  }
  return kExitError;
}

}  // namespace

int finish_output(int status) {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || status != 0) return status;
  print_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  return kExitError;
}

void add_verbose_option(CLI::App& app, CommonOptions& options) {
  app.add_flag("--verbose", options.verbose, "Say on stderr what is done");
}

void add_json_option(CLI::App& app, CommonOptions& options) {
  app.add_flag("--json", options.json, "One JSON document on stdout");
}

CommandBody add_subcommands(CLI::App& app, std::span<const Command* const> parts, CommandBody otherwise) {
  struct Part {
    const CLI::App* app;
    CommandBody body;
  };
  auto added = std::make_shared<std::vector<Part>>();
  for (const Command* part : parts) {
    CLI::App* sub = app.add_subcommand(part->name, part->summary);
    sub->footer(example_text(*part));
    added->push_back({sub, part->setup(*sub)});
  }
  if (!otherwise) app.require_subcommand(1);
  return [&app, added, otherwise = std::move(otherwise)] {
    for (const Part& part : *added) {
      if (!part.app->parsed()) continue;
      for (const CLI::Option* option : app.get_options()) {
        if (option->count() == 0) continue;
        throw CLI::ValidationError(fmt::format("{} stands before '{}' and would be lost: options come behind it",
                                               option->get_name(), part.app->get_name()));
      }
      return part.body();
    }
    return otherwise();
  };
}

int run_command(const Command& command, int argc, const char* const* argv) {
  CLI::App app(command.summary, fmt::format("ingot {}", command.name));
  app.set_help_flag("-h,--help", "Show this help");
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(28);
  app.footer(example_text(command));
  CommandBody body = command.setup(app);
  std::vector<std::string> args(argv + 1, argv + argc);
  if (command.modernize) command.modernize(app, args);
  std::ranges::reverse(args);  // as the parser takes them
  try {
    app.parse(std::move(args));
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return wrong_usage(app, command, e);
  }
  return run_body(app, command, body);
}

}  // namespace ingot
