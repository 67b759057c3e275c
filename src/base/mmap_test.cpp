#include "base/mmap.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace ingot {
namespace {

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "ingot_mmap_" + std::to_string(::getpid()) + "_" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string message_of_open(const std::string& path) {
  try {
    MappedFile::open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MappedFile, ReadsAndMoves) {
  const std::string path = write_file("a", "hello");
  MappedFile file = MappedFile::open(path);
  ASSERT_EQ(file.bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(file.bytes().data(), "hello", 5), 0);
  EXPECT_EQ(file.path(), path);
  file.advise_sequential(file.bytes());
  file.advise_random(file.bytes());
  file.advise_will_need(file.bytes().subspan(1, 3));
  file.advise_dont_need(file.bytes().subspan(1, 3));
  const std::byte* data = file.bytes().data();
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().data(), data);
  EXPECT_TRUE(file.bytes().empty());  // NOLINT: a moved-from file has no bytes
  file = std::move(moved);
  EXPECT_EQ(file.bytes().data(), data);
  ::unlink(path.c_str());
  EXPECT_EQ(std::memcmp(file.bytes().data(), "hello", 5), 0);
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  const std::string path = write_file("empty", "");
  const MappedFile file = MappedFile::open(path);
  EXPECT_TRUE(file.bytes().empty());
  file.advise_sequential(file.bytes());
  EXPECT_TRUE(file.unchanged());
  ::unlink(path.c_str());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  EXPECT_NE(message_of_open("/no/such/file").find("No such file"), std::string::npos);
  EXPECT_NE(message_of_open(testing::TempDir()).find("is a directory"), std::string::npos);
  const std::string fifo = testing::TempDir() + "ingot_mmap_fifo_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(message_of_open(fifo).find("is not a regular file"), std::string::npos);
  ::unlink(fifo.c_str());
}

TEST(MappedFile, NoticesThatTheSizeChanged) {
  const std::string path = write_file("grow", "hello");
  const MappedFile file = MappedFile::open(path);
  EXPECT_TRUE(file.unchanged());
  std::ofstream(path, std::ios::binary | std::ios::app) << "!";
  EXPECT_FALSE(file.unchanged());
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace ingot
