#include "base/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/exact_reads.h"
#include "base/mapping_guard.h"

namespace ingot {

namespace {

int64_t modified_ns(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec};
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on a regular file.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) throw Error("[file] {}: {}", path, std::strerror(errno));
  struct stat before = {};
  if (::fstat(file.fd_, &before) != 0) throw Error("[file] {}: {}", path, std::strerror(errno));
  if (S_ISDIR(before.st_mode)) throw Error("[file] {}: is a directory", path);
  if (!S_ISREG(before.st_mode)) throw Error("[file] {}: is not a regular file", path);
  file.modified_ns_ = modified_ns(before);
  const auto size = static_cast<size_t>(before.st_size);
  if (size > 0) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd_, 0);
    if (data == MAP_FAILED) throw Error("[file] {}: cannot map {} bytes: {}", path, size, std::strerror(errno));
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = size;
    guard_mapping(data, size);
    if (reads_exactly()) file.advise_random(file.bytes());
  }
  // A file that is still being written would be read in part.
  if (!file.unchanged()) throw Error("[file] {}: changed while it was opened", path);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    release();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
    modified_ns_ = other.modified_ns_;
  }
  return *this;
}

MappedFile::~MappedFile() { release(); }

void MappedFile::release() {
  if (data_ != nullptr) {
    unguard_mapping(data_);
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  size_ = 0;
  fd_ = -1;
}

bool MappedFile::unchanged() const {
  if (fd_ < 0) return true;
  struct stat now = {};
  return ::fstat(fd_, &now) == 0 && static_cast<size_t>(now.st_size) == size_ && modified_ns(now) == modified_ns_;
}

void MappedFile::advise(std::span<const std::byte> part, int advice) const {
  if (part.empty() || data_ == nullptr) return;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // madvise wants a page's address; the mapping begins at one, so rounding down stays inside it.
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

void MappedFile::advise_sequential(std::span<const std::byte> part) const { advise(part, MADV_SEQUENTIAL); }
void MappedFile::advise_random(std::span<const std::byte> part) const { advise(part, MADV_RANDOM); }
void MappedFile::advise_will_need(std::span<const std::byte> part) const { advise(part, MADV_WILLNEED); }
void MappedFile::advise_dont_need(std::span<const std::byte> part) const { advise(part, MADV_DONTNEED); }

}  // namespace ingot
