#include "base/folder.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace ingot {

std::vector<std::string> names_in(const std::string& folder, int& problem) {
  struct Close {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  std::vector<std::string> names;
  problem = 0;
  const std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  if (!dir) {
    problem = errno;
    return names;
  }
  for (errno = 0; const dirent* entry = readdir(dir.get()); errno = 0) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  problem = errno;
  if (problem != 0) names.clear();
  return names;
}

}  // namespace ingot
