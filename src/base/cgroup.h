// How much of the machine the control group of this process grants.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// Cores granted by the quotas (cgroup v2, cpu.max) of the group `path`, such as "/user.slice/a", in the tree that is
// mounted at `root`: the smallest of the group's own and those of the groups around it, rounded up; 0 where there is
// none.
int cgroup_cores(const std::string& root, std::string_view path);

// The same for this process.
int cgroup_cores();

}  // namespace ingot
