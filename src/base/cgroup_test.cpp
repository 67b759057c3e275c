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

TEST(Cgroup, TreesOfVersion1) {
  std::string root = testing::TempDir() + "cgroups-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/cpu,cpuacct/a/b");
  std::filesystem::create_directories(root + "/cpuset/a");
  const auto write = [&](const std::string& file, const std::string& text) { std::ofstream(root + file) << text; };
  const auto cores = [&] { return cgroup_cores_of(root + "/list", root); };
  EXPECT_EQ(cores(), 0);  // no list
  write("/list", "5:cpuset:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\nnonsense\n");
  EXPECT_EQ(cores(), 0);
  for (const char* group : {"/cpu,cpuacct", "/cpu,cpuacct/a", "/cpu,cpuacct/a/b", "/cpuset/a"}) {
    write(std::string(group) + "/cpu.cfs_quota_us", "-1\n");
    write(std::string(group) + "/cpu.cfs_period_us", "100000\n");
  }
  EXPECT_EQ(cores(), 0);  // no limit
  write("/cpu,cpuacct/a/b/cpu.cfs_quota_us", "350000\n");
  EXPECT_EQ(cores(), 4);
  write("/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cores(), 2);
  write("/cpuset/a/cpu.cfs_quota_us", "100000\n");  // not a tree of cpu
  EXPECT_EQ(cores(), 2);
  write("/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 1);  // both versions
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace ingot
