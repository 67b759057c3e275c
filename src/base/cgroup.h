// How much of the machine the control group of this process grants.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// Cores granted by the quotas (cpu.max; in trees of version 1 cpu.cfs_quota_us and cpu.cfs_period_us) of the group
// `path`, such as "/user.slice/a", in the tree that is mounted at `root`: the smallest of the group's own and those of
// the groups around it, rounded up; 0 where there is none.
int cgroup_cores(const std::string& root, std::string_view path);

// The smallest for the groups in the file `list`, which is as /proc/self/cgroup: "0::/a" in the tree at `root`, and
// "4:cpu,cpuacct:/a" in the tree at `root`/cpu,cpuacct.
int cgroup_cores_of(const std::string& list, const std::string& root);

// The same for this process.
int cgroup_cores();

}  // namespace ingot
