#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ingot {
namespace {

TEST(Cgroup, TheSmallestQuotaOnThePathCounts) {
  std::string root = testing::TempDir() + "cgroups-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/a/b/c");
  const auto write = [&](const std::string& group, const std::string& text) {
    std::ofstream(root + group + "/cpu.max") << text;
  };
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 0);  // no file at all
  write("/a", "800000 100000\n");
  write("/a/b", "max 100000\n");
  write("/a/b/c", "max 100000\n");
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 8);
  EXPECT_EQ(cgroup_cores(root, "/a"), 8);
  EXPECT_EQ(cgroup_cores(root, "/"), 0);
  EXPECT_EQ(cgroup_cores(root, ""), 0);
  write("/a/b", "250000 100000\n");
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 3);  // rounded up
  write("/a/b/c", "1600000 100000\n");
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 3);
  write("/a/b/c", "10000 100000\n");
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 1);
  EXPECT_EQ(cgroup_cores(root, "/a/b"), 3);
  write("", "200000 100000\n");
  EXPECT_EQ(cgroup_cores(root, "/a"), 2);
  EXPECT_EQ(cgroup_cores(root, "/gone/too"), 2);
  write("/a/b/c", "nonsense");
  EXPECT_EQ(cgroup_cores(root, "/a/b/c"), 2);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ingot
