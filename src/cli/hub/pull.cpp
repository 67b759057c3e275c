// ingot pull NAME: fetches a model into the cache.
#include "cli/hub/pull.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/hub/download.h"
#include "cli/hub/hub.h"
#include "cli/hub/model_files.h"
#include "cli/hub/progress.h"
#include "cli/interrupt.h"
#include "cli/strings.h"
#include "files/json.h"
#include "files/manifest.h"

namespace fs = std::filesystem;

namespace ingot {

namespace {

// The chosen files with their sizes. They are stored side by side, so no two may share a base name.
std::vector<RepoFile> chosen_files(const Repo& repo, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const RepoFile& file : repo.files) paths.push_back(file.path);
  std::vector<RepoFile> chosen;
  std::set<std::string> names;
  for (const std::string& path : choose_files(repo.name, paths, pattern)) {
    if (!names.insert(base_name(path)).second) {
      throw Error("[pull] {} has several files called {}: choose one with --file", repo.name, base_name(path));
    }
    chosen.push_back(
        *std::find_if(repo.files.begin(), repo.files.end(), [&](const auto& f) { return f.path == path; }));
  }
  return chosen;
}

// The cached model if it is this commit with these files.
std::optional<CachedModel> up_to_date(const Repo& repo, const std::vector<RepoFile>& files) {
  for (CachedModel& model : list_cached()) {
    if (model.name != repo.name || model.revision != repo.commit) continue;
    const fs::path dir = model.format == "gguf" ? fs::path(model.path).parent_path() : fs::path(model.path);
    for (const RepoFile& file : files) {
      std::error_code error;
      const uintmax_t size = fs::file_size(dir / base_name(file.path), error);
      if (error || (file.size >= 0 && size != static_cast<uintmax_t>(file.size))) return std::nullopt;
    }
    return std::move(model);
  }
  return std::nullopt;
}

// The cached model where it is the commit that was asked for: the hub has nothing to add. A model appears in the cache
// as a whole or not at all.
std::optional<CachedModel> cached_commit(const PullOptions& options) {
  if (!is_commit(options.revision)) return std::nullopt;
  for (CachedModel& model : list_cached()) {
    if (model.name != options.name || model.revision != options.revision) continue;
    const bool wanted =
        options.file.empty() || (model.format == "gguf" && matches_pattern(base_name(model.path), options.file));
    if (wanted) return std::move(model);
  }
  return std::nullopt;
}

// A large file that the cached model of another revision has already is linked instead of fetched.
void reuse(const std::string& cached_dir, const RepoFile& file, const std::string& path) {
  const std::string old = cached_dir + "/" + base_name(file.path);
  std::error_code error;
  if (file.sha256.empty() || fs::exists(path, error) ||
      fs::symlink_status(old, error).type() != fs::file_type::regular) {
    return;
  }
  if (fs::file_size(old, error) != static_cast<uintmax_t>(file.size) || sha256_file(old) != file.sha256) return;
  fs::create_hard_link(old, path, error);  // without a link the file is simply fetched
}

void fetch_files(Hub& hub, const Repo& repo, const std::vector<RepoFile>& files, const std::string& dir) {
  uint64_t total = 0, done = 0, kept_before = 0;
  const std::string cached_dir = cache_dir() + "/models/" + repo.name;
  for (const RepoFile& file : files) {
    reuse(cached_dir, file, dir + "/" + base_name(file.path));
    total += static_cast<uint64_t>(std::max<int64_t>(file.size, 0));
  }
  uint64_t present = 0;
  for (const auto& entry : fs::directory_iterator(dir)) present += entry.is_regular_file() ? entry.file_size() : 0;
  check_free_space(dir, total - std::min(total, present));
  Progress progress(repo.name, total);
  for (const RepoFile& file : files) {
    Download what{.url = hub.file_url(repo, file.path),
                  .path = dir + "/" + base_name(file.path),
                  .label = fmt::format("{}/{}", repo.name, file.path),
                  .sha256 = file.sha256,
                  .size = file.size};
    uint64_t kept = static_cast<uint64_t>(std::max<int64_t>(file.size, 0));  // of this file, if nothing is fetched
    what.progress = [&](uint64_t bytes, uint64_t resumed) {
      kept = resumed;
      progress.update(done + bytes, kept_before + kept);
    };
    download_file(hub.client(), what);
    done += static_cast<uint64_t>(std::max<int64_t>(file.size, 0));
    kept_before += kept;
  }
}

struct Options {
  PullOptions pull;
  CommonOptions common;
};

int run(const Options& options) {
  const InterruptGuard guard;
  const PullOptions& pull = options.pull;
  if (pull.name == kDefaultModel && (pull.revision != "main" || !pull.file.empty())) {
    throw CLI::ValidationError("the default model has no --revision and no --file");
  }
  const CachedModel model = pull.name == kDefaultModel ? pull_default() : pull_repository(pull);
  if (options.common.json) {
    const JsonObject result = {{"name", model.name},
                               {"path", model.path},
                               {"format", model.format},
                               {"bytes", model.bytes},
                               {"revision", model.revision}};
    fmt::print("{}\n", to_json(result));
  } else {
    fmt::print("{}\n", model.path);
  }
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->pull.name, "ORG/NAME of a Hugging Face repository, or default")
      ->required()
      ->type_name("");
  app.add_option("--revision", options->pull.revision, "A branch, a tag or a commit (default: main)")->type_name("R");
  app.add_option("--file", options->pull.file, "Which GGUF file: a pattern or a part of its name")
      ->type_name("PATTERN");
  app.add_option("--retries", options->pull.retries, "Tries after the first one fails (default: 5)")
      ->check(CLI::Range(0, 100).description(""))
      ->type_name("N");
  add_json_option(app, options->common);
  return [options] { return run(*options); };
}

}  // namespace

void write_model_notes(const std::string& dir, const std::string& model_path, const std::string& name,
                       const std::string& revision) {
  const std::string path = dir + "/" + kSourceFile;
  std::ofstream out(path, std::ios::binary);
  out << to_json(JsonObject{{"name", name}, {"revision", revision}}) << '\n';
  out.close();
  if (!out) throw Error("[pull] cannot write {}", path);
  try {
    write_manifest(model_path, dir + "/" + kManifestFile);
  } catch (const Error& e) {
    // The files are as published, only not understood; loading them will say the same.
    std::error_code ignored;
    fs::remove(dir + "/" + kManifestFile, ignored);
    fmt::print(stderr, "ingot: no checksums written: {}\n", e.what());
  }
}

CachedModel pull_repository(const PullOptions& options) {
  check_model_name(options.name);
  if (std::optional<CachedModel> model = cached_commit(options)) {
    fmt::print(stderr, "ingot: {} is in the cache already\n", options.name);
    return std::move(*model);
  }
  Hub hub(options.retries);
  const Repo repo = hub.list(options.name, options.revision);
  const std::vector<RepoFile> files = chosen_files(repo, options.file);
  Staging staging(options.name);
  if (std::optional<CachedModel> model = up_to_date(repo, files)) {
    staging.discard();
    fmt::print(stderr, "ingot: {} is in the cache already\n", options.name);
    return std::move(*model);
  }
  fetch_files(hub, repo, files, staging.dir());
  std::vector<std::string> names = {kSourceFile, kManifestFile};
  for (const RepoFile& file : files) names.push_back(base_name(file.path));
  const std::string weights = base_name(files.back().path);
  const std::string first = *std::find_if(names.begin(), names.end(),
                                          [&](const std::string& name) { return is_gguf(name) || name == weights; });
  write_model_notes(staging.dir(), is_gguf(first) ? staging.dir() + "/" + first : staging.dir(), repo.name,
                    repo.commit);
  return staging.publish(names);
}

const Command kPullCommand = {
    "pull", "Fetch a model into the cache",
    "ingot pull HuggingFaceTB/SmolLM2-360M-Instruct\n  ingot pull org/name-GGUF --file Q4_K_M\n\n"
    "Environment: HF_TOKEN for private and gated models, HF_ENDPOINT for a mirror of the hub,\n"
    "INGOT_HOME for the cache. A broken download is resumed by the next pull.",
    setup};

}  // namespace ingot
