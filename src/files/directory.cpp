#include "files/directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace ingot {

namespace fs = std::filesystem;

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> list_files(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code problem;
  fs::directory_iterator entry(directory, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) paths.push_back(entry->path().string());
  }
  if (problem) throw Error("[file] {}: {}", directory, problem.message());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace ingot
