#include "base/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace ingot {
namespace {

int rounded_up(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::min((quota + period - 1) / period, 1e6));
}

// Cores that the files of one group grant, rounded up; 0 where they set no limit or are not there.
int quota_of(const std::string& group) {
  std::ifstream file(group + "/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period) return quota == "max" ? 0 : rounded_up(std::strtod(quota.c_str(), nullptr), period);
  std::ifstream old_quota(group + "/cpu.cfs_quota_us"), old_period(group + "/cpu.cfs_period_us");
  double most = 0;  // -1: no limit
  if (!(old_quota >> most) || !(old_period >> period)) return 0;
  return rounded_up(most, period);
}

// Whether "cpu" is one of the names in "cpu,cpuacct".
bool has_cpu(std::string_view controllers) {
  while (true) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
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

int cgroup_cores_of(const std::string& list, const std::string& root) {
  std::ifstream file(list);
  int least = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_cpu(controllers)) continue;
    const int cores = cgroup_cores(controllers.empty() ? root : root + "/" + controllers, line.substr(second + 1));
    if (cores > 0) least = least == 0 ? cores : std::min(least, cores);
  }
  return least;
}

int cgroup_cores() { return cgroup_cores_of("/proc/self/cgroup", "/sys/fs/cgroup"); }

}  // namespace ingot
