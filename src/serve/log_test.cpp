#include "serve/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace ingot {
namespace {

class LogFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-log-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string path() const { return directory + "/log"; }
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream text(read_text_file(path()));
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  }
  std::string directory;
};

TEST_F(LogFile, WritesLinesOfJson) {
  {
    Log log({.path = path(), .json = true});
    log.info("request", {{"status", 200}, {"route", "/v1/models"}});
    log.warning("odd", {{"name", "a\nb\x1b[0m"}});
  }
  ASSERT_EQ(lines().size(), 2u);
  const Json first = parse_json(lines()[0], "line");
  EXPECT_EQ(first.at("level").as_string(), "info");
  EXPECT_EQ(first.at("event").as_string(), "request");
  EXPECT_EQ(first.at("status").as_int64(), 200);
  EXPECT_EQ(lines()[1].find('\x1b'), std::string::npos);
}

TEST_F(LogFile, WritesTextForPeople) {
  {
    Log log({.path = path()});
    log.error("it broke", {{"part", "x y"}, {"times", 3}});
  }
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_NE(lines()[0].find("error   it broke part=x y times=3"), std::string::npos) << lines()[0];
}

TEST_F(LogFile, StopsAtItsLimitAndCounts) {
  Log log({.path = path(), .max_bytes = 1000});
  for (int i = 0; i < 100; ++i) log.info("line", {{"i", i}});
  log.flush();
  EXPECT_LE(std::filesystem::file_size(path()), 1000u);
  EXPECT_GT(lines().size(), 5u);
  EXPECT_EQ(log.dropped() + static_cast<int64_t>(lines().size()), 100);
}

TEST_F(LogFile, AFullDiskIsCountedAndSurvived) {
  Log log({.path = "/dev/full"});
  for (int i = 0; i < 10; ++i) log.info("line");
  log.flush();
  EXPECT_EQ(log.dropped(), 10);
}

TEST_F(LogFile, OffWritesNothingAndABadPathIsAnError) {
  Log log({.path = "off"});
  log.info("line");
  log.flush();
  EXPECT_EQ(log.dropped(), 0);
  EXPECT_THROW(Log({.path = directory + "/no/such"}), Error);
}

TEST_F(LogFile, AReaderThatTakesNothingHoldsNobodyUp) {
  const std::string fifo = directory + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    Log log({.path = fifo});
    for (int i = 0; i < 3000; ++i) log.info("line", {{"text", std::string(200, 'x')}});
    log.flush();
    EXPECT_GT(log.dropped(), 0);  // a pipe holds 64 KiB
  }
  close(reader);
}

}  // namespace
}  // namespace ingot
