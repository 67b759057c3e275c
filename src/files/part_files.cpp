#include "files/part_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "files/atomic_file.h"
#include "files/directory.h"
#include "files/json.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

void write_all(int fd, std::span<const std::byte> bytes, off_t offset, bool& failed) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      failed = true;
      return;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

}  // namespace

PartFiles::PartFiles(std::string out, bool directory, std::vector<PartSpec> files, std::vector<PartItem> items,
                     const std::string& identity)
    : out_(std::move(out)),
      part_(out_ + ".part"),
      journal_path_(part_ + ".journal"),
      directory_(directory),
      items_(std::move(items)),
      finished_(items_.size()) {
  for (PartSpec& spec : files) {
    files_.push_back({.path = directory_ ? part_ + "/" + spec.name : part_, .bytes = spec.bytes});
  }
  const std::string journal = read_journal(identity);
  resumed_ = !journal.empty();
  if (!resumed_) {
    std::error_code error;
    fs::remove_all(part_, error);
    if (directory_ && ::mkdir(part_.c_str(), 0777) != 0) fail(part_, "cannot be made");
  }
  for (File& file : files_) open_file(file, !resumed_);
  if (resumed_) {
    take_finished(journal);
  } else {
    start_journal(identity);
  }
  journal_ = ::open(journal_path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (journal_ < 0) fail(journal_path_, "cannot be written");
}

PartFiles::~PartFiles() { close_files(); }

void PartFiles::close_files() {
  for (File& file : files_) {
    if (file.mapped != nullptr)
      ::munmap(const_cast<std::byte*>(std::exchange(file.mapped, nullptr)), static_cast<size_t>(file.bytes));
    if (file.fd >= 0) ::close(std::exchange(file.fd, -1));
  }
  if (journal_ >= 0) ::close(std::exchange(journal_, -1));
}

void PartFiles::fail(const std::string& path, const char* what) const {
  throw Error("[file] {}: {}: {}", path, what, std::strerror(errno));
}

// The journal, where an earlier run left it with all files and of the same identity; else an empty text.
std::string PartFiles::read_journal(const std::string& identity) const {
  if (!exists(journal_path_)) return {};
  for (const File& file : files_) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0 || static_cast<uint64_t>(info.st_size) != file.bytes) return {};
  }
  std::string text = read_text_file(journal_path_);
  return text.starts_with(identity + "\n") ? text : "";
}

// The first line is the identity; then a line for each finished item, its number and its checksum. A line without its
// end was cut short and does not count, nor does one whose bytes never reached the disk.
void PartFiles::take_finished(const std::string& lines) {
  for (size_t at = lines.find('\n') + 1, end = 0; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
    size_t item = 0;
    uint64_t sum = 0;
    const char* const stop = lines.data() + end;
    const auto number = std::from_chars(lines.data() + at, stop, item);
    if (number.ec != std::errc() || number.ptr == stop || item >= items_.size()) continue;
    const auto digits = std::from_chars(number.ptr + 1, stop, sum, 16);
    finished_[item] = digits.ec == std::errc() && digits.ptr == stop && checksum(item) == sum;
  }
}

// Four sums side by side, so that it goes at the speed of memory.
uint64_t PartFiles::checksum(size_t item) const {
  uint64_t sums[4] = {1, 2, 3, 4};
  const auto add = [&](size_t lane, uint64_t value) {
    sums[lane] = std::rotl(sums[lane] ^ value, 27);
    sums[lane] += sums[lane] << 5;
  };
  for (const PartRange& range : items_[item]) {
    const std::span<const std::byte> bytes = view(range.file, range.offset, range.bytes);
    size_t i = 0;
    uint64_t words[4];
    for (; i + sizeof(words) <= bytes.size(); i += sizeof(words)) {
      std::memcpy(words, bytes.data() + i, sizeof(words));
      for (size_t lane = 0; lane < 4; ++lane) add(lane, words[lane]);
    }
    for (; i < bytes.size(); ++i) add(0, std::to_integer<uint64_t>(bytes[i]));
  }
  for (size_t lane = 1; lane < 4; ++lane) add(0, sums[lane]);
  return sums[0];
}

void PartFiles::start_journal(const std::string& identity) {
  AtomicFile file(journal_path_);
  file.write(identity + "\n");
  file.commit();
}

void PartFiles::open_file(File& file, bool fresh) const {
  file.fd = ::open(file.path.c_str(), O_RDWR | O_CLOEXEC | (fresh ? O_CREAT | O_TRUNC : 0), 0666);
  if (file.fd < 0) fail(file.path, "cannot be written");
  if (fresh && file.bytes > 0) {
    const int error = ::posix_fallocate(file.fd, 0, static_cast<off_t>(file.bytes));
    // A file system that cannot reserve still has the bytes as they come.
    if (error == EOPNOTSUPP || error == EINVAL) {
      if (::ftruncate(file.fd, static_cast<off_t>(file.bytes)) != 0) fail(file.path, "cannot be written");
    } else if (error != 0) {
      std::error_code ignored;
      fs::remove_all(part_, ignored);
      throw Error("[file] {}: no room for {} bytes: {}", file.path, file.bytes, std::strerror(error));
    }
  }
  if (file.bytes == 0) return;
  void* mapped = ::mmap(nullptr, static_cast<size_t>(file.bytes), PROT_READ, MAP_SHARED, file.fd, 0);
  if (mapped == MAP_FAILED) fail(file.path, "cannot be mapped");
  file.mapped = static_cast<const std::byte*>(mapped);
}

void PartFiles::write(size_t file, uint64_t offset, std::span<const std::byte> bytes) const {
  const File& to = files_[file];
  CHECK(offset <= to.bytes && bytes.size() <= to.bytes - offset, "{} bytes at {} of {}", bytes.size(), offset,
        to.bytes);
  bool failed = false;
  write_all(to.fd, bytes, static_cast<off_t>(offset), failed);
  if (failed) fail(to.path, "cannot be written");
}

std::span<const std::byte> PartFiles::view(size_t file, uint64_t offset, uint64_t bytes) const {
  const File& from = files_[file];
  CHECK(offset <= from.bytes && bytes <= from.bytes - offset, "{} bytes at {} of {}", bytes, offset, from.bytes);
  return {from.mapped + offset, static_cast<size_t>(bytes)};
}

void PartFiles::finish(size_t item) {
  const std::string line = fmt::format("{} {:x}\n", item, checksum(item));
  for (const PartRange& range : items_[item]) {
    const std::span<const std::byte> bytes = view(range.file, range.offset, range.bytes);
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) & ~(page - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) & ~(page - 1);
    if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  if (::write(journal_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    fail(journal_path_, "cannot be written");
  finished_[item] = true;
}

void PartFiles::add_file(const std::string& name, std::span<const std::byte> bytes) const {
  CHECK(directory_, "a file beside a single one");
  AtomicFile file(part_ + "/" + name);
  file.write(bytes);
  file.commit();
}

void PartFiles::commit() {
  for (const File& file : files_) {
    if (::fsync(file.fd) != 0) fail(file.path, "cannot be written");
  }
  close_files();
  if (::rename(part_.c_str(), out_.c_str()) != 0) fail(part_, "cannot be renamed");
  ::unlink(journal_path_.c_str());
}

void PartFiles::discard() {
  close_files();
  std::error_code error;
  fs::remove_all(part_, error);
  fs::remove(journal_path_, error);
}

}  // namespace ingot
