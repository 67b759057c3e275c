#include "files/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ingot {

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(fmt::format("{}.{}.tmp", path, static_cast<long>(::getpid()))) {
  file_ = std::fopen(temporary_.c_str(), "wbe");
  if (file_ == nullptr) fail("cannot be written");
  std::setvbuf(file_, nullptr, _IOFBF, size_t{1} << 20);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const { throw Error("[file] {}: {}: {}", path_, what, std::strerror(errno)); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("cannot be written");
}

void AtomicFile::commit() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail("cannot be written");
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("cannot be written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed from its temporary name");
  temporary_.clear();
}

}  // namespace ingot
