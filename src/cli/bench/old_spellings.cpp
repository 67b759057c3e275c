#include "cli/bench/old_spellings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace ingot {
namespace {

using Args = std::vector<std::string>;

bool takes_value(const CLI::App& app, const std::string& arg) {
  if (arg.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(arg);
  return arg == "--trace" || (option != nullptr && option->get_items_expected_max() > 0);
}

// Where the first subcommand stands, past options and their values; the end where there is none.
Args::iterator find_part(const CLI::App& app, Args& args) {
  for (auto at = args.begin(); at != args.end(); ++at) {
    if (!app.get_subcommands([&](const CLI::App* part) { return part->get_name() == *at; }).empty()) return at;
    if (at->starts_with("-") && takes_value(app, *at) && at + 1 != args.end()) ++at;
  }
  return args.end();
}

void tell(const char* old_form, const char* new_form) {
  fmt::print(stderr, "ingot: {} is now {}; the old form goes with the next release\n", old_form, new_form);
}

}  // namespace

void modernize_bench(const CLI::App& app, Args& args) {
  const auto part = find_part(app, args);
  if (part == args.begin()) return;
  if (part != args.end()) {
    if (*part != "ops") return;
    std::rotate(args.begin(), part, part + 1);
    return tell("bench OPTIONS ops", "bench ops OPTIONS");
  }
  const auto trace = std::ranges::find_if(
      args, [](const std::string& arg) { return arg == "--trace" || arg.starts_with("--trace="); });
  if (trace == args.end() || (*trace == "--trace" && trace + 1 == args.end())) return;
  const bool apart = *trace == "--trace";
  const std::string file = apart ? *(trace + 1) : trace->substr(std::string_view("--trace=").size());
  args.erase(trace, trace + (apart ? 2 : 1));
  args.insert(args.begin(), {"trace", file});
  tell("bench --trace FILE", "bench trace FILE");
}

}  // namespace ingot
