#include "serve/tenants/usage_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "files/json.h"

namespace ingot {
namespace {

class UsageLogFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-usage-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string path() const { return directory + "/usage"; }
  std::vector<std::string> lines() const {
    std::ifstream file(path());
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  std::string directory;
};

TEST_F(UsageLogFile, IsAppendedToAndEndsHalfALineThatItFinds) {
  std::ofstream(path()) << "{\"old\":1}\n{\"cut";
  {
    UsageLog log({.path = path()});
    EXPECT_TRUE(log.on());
    EXPECT_TRUE(log.write("{\"new\":1}"));
  }
  UsageLog again({.path = path()});
  EXPECT_TRUE(again.write("{\"new\":2}"));
  EXPECT_EQ(lines(), (std::vector<std::string>{"{\"old\":1}", "{\"cut", "{\"new\":1}", "{\"new\":2}"}));
}

TEST_F(UsageLogFile, LinesOfManyThreadsAreWhole) {
  UsageLog log({.path = path()});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) EXPECT_TRUE(log.write("{\"t\":" + std::to_string(t * 1000 + i) + "}"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> all = lines();
  EXPECT_EQ(all.size(), 2000u);
  for (const std::string& line : all) EXPECT_NO_THROW(parse_json(line, "line"));
}

TEST_F(UsageLogFile, AFullOneCountsWhatItLosesAndSaysSoOnceThereIsRoom) {
  UsageLog log({.path = path(), .max_bytes = 100});
  const std::string line = "{\"x\":\"" + std::string(30, 'x') + "\"}";
  EXPECT_TRUE(log.write(line));
  EXPECT_TRUE(log.write(line));
  EXPECT_TRUE(log.ready());
  EXPECT_FALSE(log.write(line));
  EXPECT_FALSE(log.write(line));
  EXPECT_EQ(log.lost(), 2);
  EXPECT_FALSE(log.ready());
  EXPECT_EQ(lines().size(), 2u);
  std::filesystem::resize_file(path(), 0);  // whoever looks after it has taken a copy
  EXPECT_TRUE(log.ready());
  EXPECT_TRUE(log.write("{}"));
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(parse_json(all[0], "line").as_object().at("lost"), 2);
  EXPECT_EQ(all[1], "{}");
  EXPECT_EQ(log.lost(), 2);
}

// A file that may grow no more is to a process what a full disk is.
TEST_F(UsageLogFile, HalfALineIsTakenBack) {
  UsageLog log({.path = path()});
  EXPECT_TRUE(log.write(std::string(60, 'a')));
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(log.write(std::string(60, 'b')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(lines(), std::vector<std::string>{std::string(60, 'a')});
  EXPECT_TRUE(log.write(std::string(60, 'c')));
  EXPECT_EQ(lines().size(), 3u);  // with that of the lost
}

TEST_F(UsageLogFile, IsAPlainFileOfOneServer) {
  const UsageLog log({.path = path()});
  EXPECT_THROW(UsageLog({.path = path()}), Error);
  EXPECT_THROW(UsageLog({.path = "/dev/null"}), Error);
  EXPECT_THROW(UsageLog({.path = directory}), Error);
  EXPECT_THROW(UsageLog({.path = directory + "/none/usage"}), Error);
  EXPECT_FALSE(UsageLog().on());
  EXPECT_TRUE(UsageLog().ready());
}

}  // namespace
}  // namespace ingot
