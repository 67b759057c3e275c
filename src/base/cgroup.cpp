#include "base/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace ingot {
namespace {

// Cores that the file cpu.max of one group grants, rounded up; 0 where it sets no limit or is not there.
int quota_of(const std::string& group) {
  std::ifstream file(group + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>(std::min((std::strtod(quota.c_str(), nullptr) + period - 1) / period, 1e6));
}

}  // namespace

int cgroup_cores(const std::string& root, std::string_view path) {
  int least = 0;
  const auto lower = [&](const std::string& group) {
    if (const int cores = quota_of(group); cores > 0) least = least == 0 ? cores : std::min(least, cores);
  };
  lower(root);
  for (size_t end = path.find('/'); end != std::string_view::npos;) {
    end = path.find('/', end + 1);
    const std::string_view group = path.substr(0, end);
    if (group.size() > 1) lower(root + std::string(group));
  }
  return least;
}

int cgroup_cores() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::")) path = line.substr(3);
  return cgroup_cores("/sys/fs/cgroup", path);
}

}  // namespace ingot
