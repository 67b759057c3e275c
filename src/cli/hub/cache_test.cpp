#include "cli/hub/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/hub/model_files.h"

namespace fs = std::filesystem;

namespace ingot {
namespace {

// An empty cache for each test.
class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "ingot-cache-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    setenv("INGOT_HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("INGOT_HOME");
    fs::remove_all(home_);
  }

  void write(const std::string& path, const std::string& content = "x") {
    fs::create_directories(fs::path(home_ + "/" + path).parent_path());
    std::ofstream(home_ + "/" + path) << content;
  }

  std::string home_;
};

TEST_F(CacheTest, DirectoryFollowsTheEnvironment) {
  EXPECT_EQ(cache_dir(), home_);
  setenv("INGOT_HOME", (home_ + "//").c_str(), 1);
  EXPECT_EQ(cache_dir(), home_);
  setenv("INGOT_HOME", "relative", 1);
  EXPECT_THROW(cache_dir(), Error);
  unsetenv("INGOT_HOME");
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string saved = old == nullptr ? "" : old;
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_dir(), "/x/ingot");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_TRUE(cache_dir().ends_with("/.cache/ingot"));
  old == nullptr ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

TEST_F(CacheTest, NamesAreStrict) {
  for (const char* name : {"default", "gpt2", "org/name", "Qwen/Qwen2.5-0.5B", "a_b/c--d", "_x"}) {
    EXPECT_TRUE(valid_model_name(name)) << name;
  }
  for (const char* name : {"",   ".",    "..",  "a/..", "../a", "/a",          "a/",  "a//b", "a/b/c", ".a",
                           "-a", "a/-b", "a b", "a\tb", "a\\b", "caf\xc3\xa9", "a:b", "~",    "$HOME", "a/*"}) {
    EXPECT_FALSE(valid_model_name(name)) << name;
    EXPECT_FALSE(find_cached(name)) << name;
    EXPECT_THROW(check_model_name(name), Error) << name;
    EXPECT_THROW(remove_cached(name), Error) << name;
  }
  EXPECT_FALSE(valid_model_name(std::string("a\0b", 3)));
  EXPECT_FALSE(valid_model_name(std::string(97, 'a')));
}

TEST_F(CacheTest, ListsModelsOfBothDepths) {
  EXPECT_TRUE(list_cached().empty());
  write("models/default/m.gguf", "12345");
  write("models/org/one/model.safetensors", "1234");
  write("models/org/one/config.json", "{}");
  write("models/org/one/ingot.source", R"({"revision": "abc"})");
  write("models/org/split/m-00002-of-00002.gguf");
  write("models/org/split/m-00001-of-00002.gguf");
  write("models/org/empty/readme.txt");
  write("models/org/broken/ingot.source", "no json");
  write("models/org/broken/m.gguf");
  const std::vector<CachedModel> models = list_cached();
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[0].name, "default");
  EXPECT_EQ(models[0].path, home_ + "/models/default/m.gguf");
  EXPECT_EQ(models[0].bytes, 5u);
  EXPECT_EQ(models[1].name, "org/broken");
  EXPECT_EQ(models[2].name, "org/one");
  EXPECT_EQ(models[2].format, "safetensors");
  EXPECT_EQ(models[2].revision, "abc");
  EXPECT_EQ(models[3].path, home_ + "/models/org/split/m-00001-of-00002.gguf");
  EXPECT_EQ(find_cached("org/one"), home_ + "/models/org/one");
  EXPECT_EQ(find_cached("org"), std::nullopt);
  EXPECT_EQ(find_cached("org/empty"), std::nullopt);
}

TEST_F(CacheTest, DefaultModelIsNamedWhenItIsMissing) {
  EXPECT_THROW(default_model_path(false), Error);
  write("models/default/m.gguf");
  EXPECT_EQ(default_model_path(true), home_ + "/models/default/m.gguf");
}

TEST_F(CacheTest, PublishingReplacesAsAWhole) {
  write("models/org/a/old.gguf");
  {
    Staging staging("org/a");
    EXPECT_EQ(staging.dir(), home_ + "/partial/org--a");
    write("partial/org--a/new.gguf", "123");
    write("partial/org--a/stale.gguf.0.part");
    write("partial/org--a/below/x");
    const CachedModel model = staging.publish({"new.gguf"});
    EXPECT_EQ(model.path, home_ + "/models/org/a/new.gguf");
    EXPECT_EQ(model.bytes, 3u);
  }
  EXPECT_FALSE(fs::exists(home_ + "/models/org/a/old.gguf"));
  EXPECT_FALSE(fs::exists(home_ + "/partial/org--a"));
}

TEST_F(CacheTest, NothingIsPublishedWithoutWeights) {
  Staging staging("a");
  write("partial/a/config.json");
  EXPECT_THROW(staging.publish({"config.json"}), Error);
  EXPECT_FALSE(fs::exists(home_ + "/models/a"));
}

TEST_F(CacheTest, RemovingLeavesOthersAndWhatLinksPointTo) {
  write("models/org/a/m.gguf", "1234");
  write("models/org/b/m.gguf");
  write("precious/x");
  fs::create_directory_symlink(home_ + "/precious", home_ + "/models/org/a/link");
  EXPECT_EQ(remove_cached("org/a"), 4u);
  EXPECT_TRUE(fs::exists(home_ + "/precious/x"));
  EXPECT_TRUE(find_cached("org/b"));
  EXPECT_THROW(remove_cached("org/a"), Error);
  EXPECT_THROW(remove_cached("org"), Error);
  remove_cached("org/b");
  EXPECT_FALSE(fs::exists(home_ + "/models/org"));
}

}  // namespace
}  // namespace ingot
