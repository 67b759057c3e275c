#include "files/directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/folder.h"

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
  int problem = 0;
  for (const std::string& name : names_in(directory, problem)) {
    std::error_code ignored;
    const fs::path path = fs::path(directory) / name;
    if (fs::is_regular_file(path, ignored)) paths.push_back(path.string());
  }
  if (problem != 0) throw Error("[file] {}: {}", directory, std::generic_category().message(problem));
  std::ranges::sort(paths);
  return paths;
}

}  // namespace ingot
