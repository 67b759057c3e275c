// ingot ls: the models of the cache.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/hub/cache.h"
#include "cli/hub/progress.h"
#include "files/json.h"
#include "weights/model_files.h"
#include "weights/stored_tensors.h"

namespace ingot {

namespace {

// The weights' format; empty where the files cannot be read as a model.
std::string weights_of(const CachedModel& model) {
  try {
    return format_text(bytes_of_formats(ModelFiles::open(model.path)));
  } catch (const Error&) {
    return {};
  }
}

int run(const CommonOptions& options) {
  const std::vector<CachedModel> models = list_cached();
  if (options.json) {
    JsonArray list;
    for (const CachedModel& model : models) {
      list.push_back(JsonObject{{"name", model.name},
                                {"bytes", model.bytes},
                                {"format", model.format},
                                {"container", model.format},
                                {"weights", weights_of(model)},
                                {"revision", model.revision},
                                {"path", model.path}});
    }
    fmt::print("{}\n", to_json(JsonObject{{"cache", cache_dir()}, {"models", std::move(list)}}));
    return 0;
  }
  if (models.empty()) fmt::print(stderr, "ingot: the cache is empty (see ingot pull --help)\n");
  size_t width = 0;
  for (const CachedModel& model : models) width = std::max(width, model.name.size());
  for (const CachedModel& model : models) {
    fmt::print("{:<{}}  {:>8}  {:<11}  {}\n", model.name, width, format_bytes(model.bytes), model.format,
               weights_of(model));
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<CommonOptions>();
  add_json_option(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kLsCommand = {"ls", "List the models of the cache", "ingot ls --json", setup};

}  // namespace ingot
