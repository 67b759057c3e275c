// ingot rm NAME: removes a model from the cache.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/hub/cache.h"
#include "cli/hub/progress.h"
#include "files/json.h"

namespace ingot {

namespace {

struct Options {
  std::string name;
  CommonOptions common;
};

int run(const Options& options) {
  const uint64_t bytes = remove_cached(options.name);
  if (options.common.json) {
    fmt::print("{}\n", to_json(JsonObject{{"name", options.name}, {"bytes", bytes}}));
  } else {
    fmt::print(stderr, "ingot: removed {} ({})\n", options.name, format_bytes(bytes));
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "A model of the cache, as ingot ls names it")->required()->type_name("");
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

const Command kRmCommand = {"rm", "Remove a model from the cache", "ingot rm default", setup};

}  // namespace ingot
