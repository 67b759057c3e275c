#include "base/numa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ingot {
namespace {

TEST(Numa, CountsTheNodesOfTheCores) {
  std::string root = testing::TempDir() + "nodes-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto node = [&](const std::string& name, const std::string& list) {
    std::filesystem::create_directories(root + "/" + name);
    std::ofstream(root + "/" + name + "/cpulist") << list;
  };
  EXPECT_EQ(numa_nodes(root + "/gone", {0, 1}), 1);
  EXPECT_EQ(numa_nodes(root, {0, 1}), 1);
  node("node0", "0-3,8-11\n");
  node("node1", "4-7,12\n");
  node("node2", "\n");  // memory without cores
  node("power", "0-12\n");
  EXPECT_EQ(numa_nodes(root, {0, 1, 2, 3}), 1);
  EXPECT_EQ(numa_nodes(root, {4, 12}), 1);
  EXPECT_EQ(numa_nodes(root, {11, 12}), 2);
  EXPECT_EQ(numa_nodes(root, {3, 4, 5}), 2);
  EXPECT_EQ(numa_nodes(root, {99}), 1);
  node("node3", "20-x");
  node("node4", "nonsense");
  node("node5", "30,31");
  EXPECT_EQ(numa_nodes(root, {0, 4, 20, 31}), 3);
  std::ofstream(root + "/node1/meminfo")
      << "Node 1 MemTotal:  1000 kB\nNode 1 MemFree: 300 kB\nNode 1 FilePages: 50 kB\n"
      << "Node 1 Shmem: 20 kB\nNode 1 MemUsed:\n";
  const std::vector<NumaNode> nodes = list_numa_nodes(root, {0, 3, 7, 12, 31});
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].cores, (std::vector{0, 3}));
  EXPECT_EQ(nodes[0].total_bytes, 0);
  EXPECT_EQ(nodes[1].id, 1);
  EXPECT_EQ(nodes[1].cores, (std::vector{7, 12}));
  EXPECT_EQ(nodes[1].total_bytes, 1000 * 1024);
  EXPECT_EQ(nodes[1].free_bytes, 330 * 1024);
  EXPECT_EQ(list_numa_nodes(root + "/gone", {4, 5})[0].cores, (std::vector{4, 5}));
  std::filesystem::remove_all(root);
}

TEST(Numa, ThisMachineHasOne) { EXPECT_GE(numa_nodes({0}), 1); }

}  // namespace
}  // namespace ingot
