#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>

#include "base/error.h"
#include "cli/interrupt.h"

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
  fmt::print(stderr, "ingot: {}\n", line);
}

int run_body(const Command& command, const CommandBody& body) {
  try {
    return body();
  } catch (const CLI::ParseError& e) {
    print_error(fmt::format("{}: {} (see ingot {} --help)", command.name, e.what(), command.name));
    return kExitUsage;
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

int run_command(const Command& command, int argc, const char* const* argv) {
  CLI::App app(command.summary, fmt::format("ingot {}", command.name));
  app.set_help_flag("-h,--help", "Show this help");
  app.get_formatter()->column_width(28);
  app.footer(fmt::format("Example:\n  {}", command.example));
  CommandBody body = command.setup(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    print_error(fmt::format("{}: {} (see ingot {} --help)", command.name, e.what(), command.name));
    return kExitUsage;
  }
  return run_body(command, body);
}

}  // namespace ingot
