#include "serve/tenants/usage_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
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
  // Writes the line and waits for it.
  static bool put(UsageLog& log, std::string line) {
    std::promise<bool> written;
    log.write(std::move(line), [&](bool is) { written.set_value(is); });
    return written.get_future().get();
  }
  // As the second one is told who asks after the first has been tried.
  static bool ready(UsageLog& log) {
    (void)log.ready();
    log.flush();
    return log.ready();
  }
  std::string directory;
};

// Answers wait for their lines: while a disk is slow no more of them than so many bytes, however few lines they are.
TEST_F(UsageLogFile, WhatWaitsWithLinesIsBounded) {
  constexpr size_t kQuarter = UsageLog::kMaxWaitingBytes / 4;
  std::promise<void> begun, go;
  std::atomic<int> written{0}, refused{0};
  const auto count = [&](bool is) { ++(is ? written : refused); };
  UsageLog log({.path = path()});
  log.write(
      "{}", [&, open = go.get_future().share()](bool) { begun.set_value(), open.wait(); }, kQuarter);
  begun.get_future().wait();
  for (int i = 0; i < 6; ++i) log.write("{}", count, kQuarter - 100);
  EXPECT_EQ(refused, 3);  // with the one that is being told of there are four
  log.write("{}", count, 2 * UsageLog::kMaxWaitingBytes);
  EXPECT_EQ(refused, 4);
  log.write("{}", count);  // a line alone takes little
  go.set_value();
  log.flush();
  EXPECT_EQ(written, 4);
  EXPECT_EQ(log.lost(), 4);
  log.write("{}", count, 3 * kQuarter);
  log.flush();
  EXPECT_EQ(written, 5);
}

TEST_F(UsageLogFile, IsAppendedToAndEndsHalfALineThatItFinds) {
  std::ofstream(path()) << "{\"old\":1}\n{\"cut";
  {
    UsageLog log({.path = path()});
    EXPECT_TRUE(log.on());
    EXPECT_TRUE(put(log, "{\"new\":1}"));
  }
  UsageLog again({.path = path()});
  EXPECT_TRUE(put(again, "{\"new\":2}"));
  EXPECT_EQ(lines(), (std::vector<std::string>{"{\"old\":1}", "{\"cut", "{\"new\":1}", "{\"new\":2}"}));
}

TEST_F(UsageLogFile, LinesOfManyThreadsAreWhole) {
  UsageLog log({.path = path()});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) EXPECT_TRUE(put(log, "{\"t\":" + std::to_string(t * 1000 + i) + "}"));
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
  EXPECT_TRUE(put(log, line));
  EXPECT_TRUE(put(log, line));
  EXPECT_TRUE(ready(log));
  EXPECT_FALSE(put(log, line));
  EXPECT_FALSE(put(log, line));
  EXPECT_EQ(log.lost(), 2);
  EXPECT_FALSE(ready(log));
  EXPECT_EQ(lines().size(), 2u);
  std::filesystem::resize_file(path(), 0);  // whoever looks after it has taken a copy
  EXPECT_TRUE(ready(log));
  EXPECT_TRUE(put(log, "{}"));
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(parse_json(all[0], "line").as_object().at("lost"), 2);
  EXPECT_EQ(all[1], "{}");
  EXPECT_EQ(log.lost(), 2);
}

// A file that may grow no more is to a process what a full disk is.
TEST_F(UsageLogFile, HalfALineIsTakenBack) {
  UsageLog log({.path = path()});
  EXPECT_TRUE(put(log, std::string(60, 'a')));
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(put(log, std::string(60, 'b')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(lines(), std::vector<std::string>{std::string(60, 'a')});
  EXPECT_TRUE(put(log, std::string(60, 'c')));
  EXPECT_EQ(lines().size(), 3u);  // with that of the lost
}

// Whoever ends a request, the io thread among them, hands the line over and goes on, however long the disk takes.
TEST_F(UsageLogFile, NobodyWaitsForASlowDisk) {
  std::promise<void> begun, gate;
  std::shared_future<void> open = gate.get_future().share();
  UsageLog log({.path = path(), .required = true});
  log.write("{\"slow\":1}", [&begun, open](bool) {
    begun.set_value();
    open.wait();
  });
  begun.get_future().wait();
  std::atomic<int> told = 0;
  for (size_t i = 0; i < UsageLog::kMaxWaiting; ++i) log.write("{}", [&](bool written) { told += written; });
  EXPECT_EQ(told, 0);
  // As many as may wait do; the rest is lost at once, counted and told.
  int refused = 0;
  for (int i = 0; i < 10; ++i) log.write("{}", [&](bool written) { refused += !written; });
  EXPECT_EQ(refused, 10);
  EXPECT_EQ(log.lost(), 10);
  EXPECT_EQ(log.ready(), false);
  gate.set_value();
  log.flush();
  EXPECT_EQ(told, static_cast<int>(UsageLog::kMaxWaiting));
  EXPECT_TRUE(ready(log));
}

TEST_F(UsageLogFile, WhatWaitsIsWrittenAtTheEnd) {
  {
    UsageLog log({.path = path()});
    for (int i = 0; i < 100; ++i) log.write("{}");
  }
  EXPECT_EQ(lines().size(), 100u);
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
