#include "base/folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

namespace ingot {
namespace {

TEST(Folder, Names) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "ingot-folder-test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "inner");
  std::ofstream(folder / "a.txt") << "a";
  std::ofstream(folder / ".hidden") << "h";
  int problem = -1;
  std::vector<std::string> names = names_in(folder.string(), problem);
  std::ranges::sort(names);
  EXPECT_EQ(problem, 0);
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "a.txt", "inner"}));
  EXPECT_TRUE(names_in((folder / "none").string(), problem).empty());
  EXPECT_EQ(problem, ENOENT);
  EXPECT_TRUE(names_in((folder / "a.txt").string(), problem).empty());
  EXPECT_EQ(problem, ENOTDIR);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ingot
