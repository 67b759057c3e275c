#include "tensor/row_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace ingot {
namespace {

// A mapped file of which no page is in memory, and none comes unasked.
class ColdFile {
 public:
  explicit ColdFile(size_t bytes) : bytes_(bytes) {
    // Not where tests usually write: that may lie in memory.
    std::string path = "row_pages_XXXXXX";
    const int fd = ::mkstemp(path.data());
    const std::vector<char> content(bytes, 1);
    written_ = ::write(fd, content.data(), bytes) == static_cast<ssize_t>(bytes) && ::fsync(fd) == 0;
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0));
    (void)::madvise(data_, bytes, MADV_RANDOM);
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::unlink(path.c_str());
    ::close(fd);
  }
  ~ColdFile() { ::munmap(data_, bytes_); }
  ColdFile(const ColdFile&) = delete;
  ColdFile& operator=(const ColdFile&) = delete;

  bool written() const { return written_; }
  const std::byte* data() const { return data_; }
  // The pages that are in memory.
  std::vector<size_t> pages() const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> in((bytes_ + page - 1) / page);
    std::vector<size_t> found;
    if (::mincore(data_, bytes_, in.data()) != 0) return found;
    for (size_t i = 0; i < in.size(); ++i)
      if ((in[i] & 1) != 0) found.push_back(i);
    return found;
  }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
  bool written_ = false;
};

// They are read behind the caller's back: for at most 5 s.
std::vector<size_t> pages_once(const ColdFile& file, size_t count) {
  for (int i = 0; i < 500 && file.pages().size() < count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return file.pages();
}

TEST(RowPages, NoneBetweenRows) {
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  const ColdFile file(static_cast<size_t>(64 * page));
  ASSERT_TRUE(file.written());
  if (!file.pages().empty()) GTEST_SKIP() << "this folder's files stay in memory";
  // The end of page 1 and the beginning of page 2 of every sixteen.
  want_pages_of_rows(file.data() + 2 * page - 100, 16 * page, 4, 200);
  EXPECT_EQ(pages_once(file, 8), (std::vector<size_t>{1, 2, 17, 18, 33, 34, 49, 50}));
}

TEST(RowPages, RowsOfOnePage) {
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  const ColdFile file(static_cast<size_t>(64 * page));
  ASSERT_TRUE(file.written());
  if (!file.pages().empty()) GTEST_SKIP() << "this folder's files stay in memory";
  want_pages_of_rows(file.data() + page + 10, page / 4, 9, page / 8);
  EXPECT_EQ(pages_once(file, 3), (std::vector<size_t>{1, 2, 3}));
}

}  // namespace
}  // namespace ingot
