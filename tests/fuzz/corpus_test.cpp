// Replays the kept inputs of every fuzz target. A crash is the input whose name was printed last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fuzz_target_list.inc"

#define INGOT_DECLARE(name) extern "C" int ingot_##name##_fuzz(const uint8_t* data, size_t size);
INGOT_FUZZ_TARGETS(INGOT_DECLARE)
#undef INGOT_DECLARE

namespace ingot {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(INGOT_SOURCE_DIR) / "tests/fuzz/corpus";

void replay(const std::string& target, int (*entry)(const uint8_t*, size_t)) {
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(kCorpus / target)) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty()) << target << " has no kept inputs";
  for (const fs::path& path : paths) {
    std::cout << fs::relative(path, kCorpus).string() << std::endl;
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.is_open());
    // On the heap and of exact size, so that a read past the end is seen.
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_EQ(entry(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

#define INGOT_REPLAY(name) \
  TEST(FuzzCorpus, name) { replay(#name, ingot_##name##_fuzz); }
INGOT_FUZZ_TARGETS(INGOT_REPLAY)
#undef INGOT_REPLAY

TEST(FuzzCorpus, EveryFolderHasATarget) {
#define INGOT_NAME(name) #name,
  const std::set<std::string> targets = {INGOT_FUZZ_TARGETS(INGOT_NAME)};
#undef INGOT_NAME
  for (const auto& folder : fs::directory_iterator(kCorpus)) {
    EXPECT_TRUE(targets.contains(folder.path().filename().string())) << folder.path();
  }
}

}  // namespace
}  // namespace ingot
