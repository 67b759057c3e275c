#include "files/part_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

// Σ word · factor of its place, words of 8 bytes as they lie in the file: sums over the parts of a range add up to the
// sum over all of it, in any order and wherever it is cut.
uint64_t place_sum(uint64_t offset, std::span<const std::byte> bytes) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t sum = 0, word = 0;
  const auto add = [&](uint64_t at) { sum += word * (at / 8 * kStep | 1); };
  const auto add_part = [&](size_t from, size_t to) {  // of one word
    word = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&word) + (offset + from) % 8, bytes.data() + from, to - from);
    add(offset + from);
  };
  size_t i = std::min<size_t>(bytes.size(), (8 - offset % 8) % 8);
  if (i > 0) add_part(0, i);
  for (; i + 8 <= bytes.size(); i += 8) {
    std::memcpy(&word, bytes.data() + i, 8);
    add(offset + i);
  }
  if (i < bytes.size()) add_part(i, bytes.size());
  return sum;
}

}  // namespace

PartFiles::PartFiles(std::string out, bool directory, std::vector<PartSpec> files, std::vector<PartItem> items,
                     const std::string& identity)
    : out_(std::move(out)),
      part_(out_ + ".part"),
      journal_path_(part_ + ".journal"),
      directory_(directory),
      items_(std::move(items)),
      finished_(items_.size()),
      written_(items_.size()) {
  for (size_t i = 0; i < items_.size(); ++i) {
    for (const PartRange& range : items_[i]) places_.push_back({range, i});
  }
  std::ranges::sort(places_, {}, [](const Place& p) { return std::pair(p.range.file, p.range.offset); });
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

// Of the bytes as they were written, which are still in the cache then; read back where this object did not write all.
uint64_t PartFiles::checksum(size_t item) const {
  uint64_t sum = 0, bytes = 0;
  for (const PartRange& range : items_[item]) bytes += range.bytes;
  if (written_[item].bytes == bytes) return written_[item].sum;
  for (const PartRange& range : items_[item])
    sum += place_sum(range.offset, view(range.file, range.offset, range.bytes));
  return sum;
}

void PartFiles::count(size_t file, uint64_t offset, std::span<const std::byte> bytes) const {
  const auto next = std::ranges::upper_bound(places_, std::pair(file, offset), {},
                                             [](const Place& p) { return std::pair(p.range.file, p.range.offset); });
  if (next == places_.begin()) return;
  const Place& place = *std::prev(next);
  const uint64_t end = place.range.offset + place.range.bytes;
  if (place.range.file != file || offset + bytes.size() > end) return;
  written_[place.item].sum += place_sum(offset, bytes);
  written_[place.item].bytes += bytes.size();
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
  count(file, offset, bytes);
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
